# The bundle: a libferry.a with everything inside that Ferry uses, for whoever links an archive and a header and nothing else.
#
# It is made of the objects of the other libraries, but for what speaks to oneTBB, and with fmt compiled in. One object of all
# of them, in which only Ferry's own names can be seen: a trainer's own fmt is another one.
#
#   ferry_add_bundle(TARGET [ALL] OBJECTS object-library... [ARCHIVES file...])
#
# makes ${PROJECT_BINARY_DIR}/lib/bundled/libferry.a. Sets FERRY_BUNDLE to it, or FERRY_BUNDLE_MISSING to why there is none.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  find_program(FERRY_BUNDLE_LD NAMES ld.bfd ld)
  mark_as_advanced(FERRY_BUNDLE_LD)
  set(FERRY_BUNDLE_MISSING "")
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(several)
    set(FERRY_BUNDLE_MISSING "it is made with generators of one configuration, such as Ninja and Unix Makefiles")
  elseif(CMAKE_CROSSCOMPILING)
    set(FERRY_BUNDLE_MISSING "it is made on the system that it is for")
  elseif(NOT FERRY_BUNDLE_LD OR NOT CMAKE_OBJCOPY OR NOT CMAKE_NM)
    set(FERRY_BUNDLE_MISSING "ld, objcopy and nm of GNU binutils are needed")
  else()
    execute_process(COMMAND ${FERRY_BUNDLE_LD} --help OUTPUT_VARIABLE help ERROR_QUIET)
    if(NOT help MATCHES "--force-group-allocation")
      set(FERRY_BUNDLE_MISSING "${FERRY_BUNDLE_LD} is not GNU ld, and has no --force-group-allocation")
    endif()
  endif()

  function(ferry_add_bundle target)
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    cmake_parse_arguments(PARSE_ARGV 1 arg ALL "" "OBJECTS;ARCHIVES")
    set(bundle ${PROJECT_BINARY_DIR}/lib/bundled/libferry.a)
    set(objects ${arg_OBJECTS})
    list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    set(list ${CMAKE_CURRENT_BINARY_DIR}/bundle_objects.txt)
    file(GENERATE OUTPUT ${list} CONTENT "${objects};${arg_ARCHIVES}")
    add_custom_command(
      OUTPUT ${bundle}
      COMMAND ${CMAKE_COMMAND} -Dbundle=${bundle} -Dlist=${list} -Dld=${FERRY_BUNDLE_LD} -Dobjcopy=${CMAKE_OBJCOPY}
              -Dar=${CMAKE_AR} -Dnm=${CMAKE_NM} -P ${script}
      DEPENDS ${objects} ${arg_ARCHIVES} ${list} ${script}
      COMMENT "Bundling lib/bundled/libferry.a"
      VERBATIM)
    if(arg_ALL)
      set(arg_ALL ALL)
    else()
      set(arg_ALL)
    endif()
    add_custom_target(${target} ${arg_ALL} DEPENDS ${bundle})
    set(FERRY_BUNDLE ${bundle} PARENT_SCOPE)
  endfunction()
  return()
endif()

# As a script, at build time.
file(READ ${list} objects)
list(FILTER objects EXCLUDE REGEX "[.][gp]ch$")  # precompiled headers are among them
get_filename_component(folder ${bundle} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
set(all ${folder}/ferry.o)
# Templates of other libraries come in groups, of which a linker keeps the first that it meets: a trainer's, of its own
# version. So these are no groups any more.
execute_process(COMMAND ${ld} -r --force-group-allocation -o ${all} ${objects} COMMAND_ERROR_IS_FATAL ANY)
# Nor are variables of theirs one for the whole process: objcopy leaves such symbols alone until they are weak ones.
execute_process(COMMAND ${nm} --defined-only ${all} OUTPUT_VARIABLE unique COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " u [^\n]+" unique "${unique}")
list(TRANSFORM unique REPLACE "^ u " "")
list(JOIN unique "\n" unique)
file(WRITE ${all}.unique "${unique}\n")
execute_process(COMMAND ${objcopy} --weaken-symbols=${all}.unique ${all} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${all}.unique)
# What stays visible is what the shared library exports: see ferry.map.in.
set(visible _ZN5ferry* _ZNK5ferry* _ZTIN5ferry* _ZTSN5ferry* _ZTVN5ferry* _ZThn*_N5ferry* ferry_*)
list(TRANSFORM visible PREPEND --keep-global-symbol=)
execute_process(COMMAND ${objcopy} --wildcard --localize-hidden ${visible} ${all} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${nm} --undefined-only ${all} OUTPUT_VARIABLE missing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]*(3fmt|3tbb|6spdlog|XXH|5ferry)[^ \n]*" missing "${missing}")
if(missing)
  file(REMOVE ${all})
  list(JOIN missing "\n  " missing)
  message(FATAL_ERROR "the bundle lacks what should be inside; lib/support/fmt_inside.cpp has what it takes of fmt:\n  ${missing}")
endif()
file(REMOVE ${bundle})
execute_process(COMMAND ${ar} rcs ${bundle} ${all} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${all})
