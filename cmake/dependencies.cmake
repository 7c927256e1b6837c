# Every dependency, and why it is there. All are Debian and Ubuntu packages (scripts/setup installs them).

find_package(Threads REQUIRED)

# oneTBB: the arena in which a compute stream runs its parallel loops, and spin locks. All that calls its library is in
# lib/device/compute_arena.cpp, which the bundle does without.
find_package(TBB REQUIRED)

# Boost.Lockfree: queues between the trainer's thread, the transfer engine and the streams.
# Boost.Intrusive: lists that link entries without allocating. Headers only.
find_package(Boost 1.74 REQUIRED)

# fmt: text of errors, logs and reports.
find_package(fmt REQUIRED)

# spdlog: log levels and sinks, behind lib/support/log.hpp. Headers only.
find_package(spdlog REQUIRED)

# nlohmann-json: statistics as JSON, and later plans and profiles.
find_package(nlohmann_json REQUIRED)

# xxhash: checksums for FERRY_VERIFY=checksum. Headers only.
find_path(FERRY_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# Those two, without what their own targets would link.
if(NOT TARGET ferry_headers_of_others)
  add_library(ferry_headers_of_others INTERFACE)
  target_include_directories(ferry_headers_of_others SYSTEM INTERFACE
    ${FERRY_XXHASH_INCLUDE_DIR} $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
endif()

# A BLAS: the transformer core's matrix products. Single-threaded calls inside oneTBB tiles, so that one thread pool
# serves everything; oneDNN is fastest at these shapes and needs no CPU-type workaround, any CBLAS will do.
# (Found by hand: Debian's dnnl-config.cmake wants OpenCL's headers, which nothing here has a use for.)
option(FERRY_ONEDNN "Multiply with oneDNN where it is found, else with a CBLAS" ON)
if(FERRY_BUILD_NN AND FERRY_ONEDNN)
  find_library(FERRY_DNNL_LIBRARY dnnl)
  # The library's own headers first: LibTorch brings some of another version along.
  if(FERRY_DNNL_LIBRARY)
    cmake_path(GET FERRY_DNNL_LIBRARY PARENT_PATH ferry_beside_dnnl)
    cmake_path(ABSOLUTE_PATH ferry_beside_dnnl NORMALIZE)
    cmake_path(GET ferry_beside_dnnl PARENT_PATH ferry_above_dnnl)
    cmake_path(GET ferry_above_dnnl PARENT_PATH ferry_top_of_dnnl)
    find_path(FERRY_DNNL_INCLUDE_DIR dnnl.h PATHS ${ferry_above_dnnl}/include ${ferry_top_of_dnnl}/include NO_DEFAULT_PATH)
  endif()
  find_path(FERRY_DNNL_INCLUDE_DIR dnnl.h)
endif()
if(NOT FERRY_BUILD_NN)
  set(FERRY_USES_ONEDNN OFF)
elseif(FERRY_ONEDNN AND FERRY_DNNL_LIBRARY AND FERRY_DNNL_INCLUDE_DIR)
  find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's own pool, which Ferry sets to one thread
  set(FERRY_USES_ONEDNN ON)
else()
  find_package(BLAS REQUIRED)
  find_path(FERRY_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas blis REQUIRED)
  set(FERRY_USES_ONEDNN OFF)
endif()

if(FERRY_BUILD_TOOLS OR FERRY_BUILD_BENCH OR FERRY_BUILD_EXAMPLES)
  # CLI11: flags of the ferry command, of gpt_bench and of the LibTorch example.
  find_package(CLI11 REQUIRED)
endif()

if(FERRY_BUILD_TESTS)
  # GoogleTest: unit, contract, stress and end-to-end tests.
  find_package(GTest REQUIRED)
  # Boost.Context: the emulated GPU of the tests runs every CUDA thread of a block as a fiber.
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
  # rapidcheck: property tests of the arena, the store and the session.
  find_package(rapidcheck REQUIRED)
endif()

if(FERRY_BUILD_BENCH)
  # Google Benchmark: bench/.
  find_package(benchmark REQUIRED)
endif()

# LibTorch: what the adapter adapts to; optional. cmake/torch.cmake finds it.
