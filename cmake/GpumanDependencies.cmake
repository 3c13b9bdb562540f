# Third-party libraries, all from the distribution's packages (packages.txt lists them).
find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(CLI11 REQUIRED)
if(GPUMAN_STATIC_DEPS)
  include(GpumanStaticDeps)
else()
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(SQLiteCpp REQUIRED)
# For `gpuman mig` alone: static where there is such a library, so that no other command loads it.
find_library(GPUMAN_YAML NAMES libyaml-cpp.a yaml-cpp REQUIRED)
add_library(gpuman_yaml INTERFACE)
target_link_libraries(gpuman_yaml INTERFACE ${GPUMAN_YAML})
find_package(tl-expected REQUIRED)
# Of `gpuman top` alone. Static, so that no other command loads it.
find_library(GPUMAN_NCURSESW libncursesw.a REQUIRED)
find_library(GPUMAN_TINFO libtinfo.a)
set(GPUMAN_NCURSES ${GPUMAN_NCURSESW})
if(GPUMAN_TINFO)
  list(APPEND GPUMAN_NCURSES ${GPUMAN_TINFO})
endif()
# Of gpuman-notifier alone.
find_package(CURL 7.85 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
# Of gpuman-kube-plugin alone.
find_package(Protobuf REQUIRED)
find_library(GPUMAN_NGHTTP2 nghttp2 REQUIRED)
if(GPUMAN_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(GPUMAN_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

gpuman_precompile(gpuman_precompiled_product
  HEADERS ${gpuman_std_headers} <fmt/format.h> <tl/expected.hpp>
  LIBS fmt::fmt tl::expected Threads::Threads)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT GPUMAN_SANITIZE)
  gpuman_precompile(gpuman_precompiled_less
    HEADERS ${gpuman_std_headers} <fmt/format.h> <tl/expected.hpp>
    LIBS fmt::fmt tl::expected Threads::Threads)
  target_compile_options(gpuman_precompiled_less PRIVATE -O1)
endif()
if(GPUMAN_TESTS)
  gpuman_precompile(gpuman_precompiled_test
    HEADERS ${gpuman_std_headers} <gmock/gmock.h> <gtest/gtest.h> <tl/expected.hpp>
    LIBS gpuman_test_options tl::expected Threads::Threads GTest::gmock GTest::gtest)
  # Programs are position-independent executables, not libraries.
  set_target_properties(gpuman_precompiled_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(gpuman_precompiled_test PRIVATE -fPIE)
endif()
