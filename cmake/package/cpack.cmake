# `cpack` in the build folder: a .deb and a .tar.gz of all that is installed.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME ferry)
set(CPACK_PACKAGE_VENDOR Ferry)
set(CPACK_PACKAGE_CONTACT "Ferry's maintainers <ferry@localhost>" CACHE STRING "Who answers for the packages: name <address>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Ferry gives a trainer more activations than its GPU has memory for: under a byte budget it
keeps each tensor that backward needs, carries it to pinned host memory and back, or recomputes it.
With headers, the static and the shared libraries, and the ferry command.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# What is linked is found by dpkg-shlibdeps, which has to see the libraries of the package itself.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Whoever links the static libraries needs what is inside of them.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libtbb-dev, libfmt-dev, libdnnl-dev")
include(CPack)
