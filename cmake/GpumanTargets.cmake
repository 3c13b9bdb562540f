# The three kinds of target in this tree: a library of one folder of src/, a program, a test.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# With several sources at once clang also compares the local names of one with what another has to itself; what it says of
# a source alone ./dev lint says.
set(gpuman_shadow -Wshadow)
if(GPUMAN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(gpuman_shadow "")
endif()
add_library(gpuman_options INTERFACE)
target_include_directories(gpuman_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(gpuman_options INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion ${gpuman_shadow} -Wnon-virtual-dtor
  -fvisibility=hidden -fvisibility-inlines-hidden -fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(GPUMAN_WERROR)
  target_compile_options(gpuman_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(gpuman_options INTERFACE -Wthread-safety)
endif()
if(GPUMAN_SANITIZE)
  target_compile_options(gpuman_options INTERFACE -fsanitize=${GPUMAN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(gpuman_options INTERFACE -fsanitize=${GPUMAN_SANITIZE})
else()
  target_compile_options(gpuman_options INTERFACE -fstack-protector-strong)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    target_compile_options(gpuman_options INTERFACE -D_FORTIFY_SOURCE=2)
  endif()
  target_link_options(gpuman_options INTERFACE -Wl,-z,relro,-z,now)
endif()
# What a test says is the same without optimisation, and it is compiled in half the time.
add_library(gpuman_test_options INTERFACE)
target_compile_options(gpuman_test_options INTERFACE -O0 -U_FORTIFY_SOURCE)

if(GPUMAN_COVERAGE)
  target_compile_options(gpuman_options INTERFACE --coverage)
  target_link_options(gpuman_options INTERFACE --coverage)
endif()

# Instrumented builds, and systems without a static libc, link every program alike.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -static)
check_cxx_source_compiles("int main() {}" GPUMAN_STATIC_LIBC)
unset(CMAKE_REQUIRED_FLAGS)
set(GPUMAN_STATIC_PROGRAMS OFF)
if(GPUMAN_STATIC_LIBC AND NOT GPUMAN_SANITIZE AND NOT GPUMAN_COVERAGE)
  set(GPUMAN_STATIC_PROGRAMS ON)
endif()

include(GpumanPrecompiled)

# gpuman_unity(TARGET): with GPUMAN_UNITY the compiler gets several sources of the target at once.
function(gpuman_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${GPUMAN_UNITY} UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${GPUMAN_UNITY_BATCH})
endfunction()

# gpuman_library(NAME [OPTIMISED] SOURCES … LIBS … PRECOMPILED TARGET): the static library of one folder of src/. Most of
# them wait for people and for other programs: they are compiled with -O1, in four fifths of the time, and are as fast.
# OPTIMISED: one that computes for long, or moves much data.
function(gpuman_library name)
  cmake_parse_arguments(ARG "OPTIMISED" "PRECOMPILED" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED gpuman_precompiled_product)
    if(NOT ARG_OPTIMISED AND TARGET gpuman_precompiled_less)
      set(ARG_PRECOMPILED gpuman_precompiled_less)
    endif()
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC gpuman_options ${ARG_LIBS})
  gpuman_precompiled(${name} ${ARG_PRECOMPILED})
  gpuman_unity(${name})
  if(ARG_PRECOMPILED STREQUAL gpuman_precompiled_less)
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()

# gpuman_static_objects(NAME SOURCES … LIBS …): objects that a program with a static libc has too, which cannot have the
# shared fmt. In a build without such programs they are as all others.
function(gpuman_static_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC gpuman_options ${ARG_LIBS})
  gpuman_unity(${name})
  if(GPUMAN_STATIC_PROGRAMS)
    target_link_libraries(${name} PRIVATE fmt::fmt-header-only)
    target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
  else()
    target_link_libraries(${name} PRIVATE fmt::fmt)
    gpuman_precompiled(${name} gpuman_precompiled_product)
  endif()
endfunction()

# gpuman_program(NAME SOURCES … LIBS …): a program, in bin/.
function(gpuman_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE gpuman_options ${ARG_LIBS})
  if(GPUMAN_STATIC_DEPS)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# gpuman_test(NAME SOURCES … LIBS … LABEL unit|integration|fault|gpu TIMEOUT SECONDS): one GoogleTest
# program, registered as one ctest test. Each test program runs in a temporary directory of its own making. OPTIMISED:
# one that computes for longer than the compiler takes for that.
function(gpuman_test name)
  if(NOT GPUMAN_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL;OPTIMISED" "LABEL;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(GPUMAN_TESTS_ELSEWHERE AND name MATCHES "${GPUMAN_TESTS_ELSEWHERE}")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  else()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "GPUMAN_BUILD_DIR=${CMAKE_BINARY_DIR}")
    if(ARG_SERIAL)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
  endif()
  target_link_libraries(${name} PRIVATE gpuman_options ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_OPTIMISED)
    target_link_libraries(${name} PRIVATE gpuman_test_options)
    gpuman_precompiled(${name} gpuman_precompiled_test)
  endif()
  gpuman_unity(${name})
endfunction()

# gpuman_fuzz(NAME SOURCES FILE LIBS …): a libFuzzer target for a parser, part of the target `fuzzers`. In a build with
# tests fuzz_seeds_test (tests/fuzz) runs the same source over its seeds, with any compiler.
function(gpuman_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  if(NOT GPUMAN_FUZZ)
    set_property(GLOBAL APPEND PROPERTY GPUMAN_FUZZ_NAMES ${name})
    set_property(GLOBAL PROPERTY GPUMAN_FUZZ_SOURCE_${name} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SOURCES})
    set_property(GLOBAL PROPERTY GPUMAN_FUZZ_LIBS_${name} ${ARG_LIBS})
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name})
  target_link_libraries(${name} PRIVATE gpuman_options ${ARG_LIBS})
endfunction()
