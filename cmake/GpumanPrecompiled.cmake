# Headers that most sources include, precompiled: they are half of a cold build's time. Every source still names
# what it uses; CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without (./dev lint does).
#
# One set for each combination of flags: a compiler takes a precompiled header only with the flags it was made with.

set(gpuman_std_headers
  <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <cstdint> <cstring> <deque> <filesystem> <functional> <map>
  <memory> <mutex> <optional> <set> <string> <string_view> <thread> <utility> <variant> <vector>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "// Nothing but its precompiled headers.\n")

# gpuman_precompile(NAME HEADERS … LIBS …): a target that precompiles HEADERS, for gpuman_precompiled().
function(gpuman_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${name} PUBLIC gpuman_options ${ARG_LIBS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# gpuman_precompiled(TARGET NAME): TARGET uses the headers that NAME precompiles.
function(gpuman_precompiled target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  target_compile_options(${target} PRIVATE -Wno-error=invalid-pch)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache needs the first. The others warn of what the standard library inlines, and wrongly: GCC forgets that a
    # precompiled header was a system's.
    target_compile_options(${target} PRIVATE -fpch-preprocess
      -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
    if(GPUMAN_SANITIZE MATCHES "thread")
      target_compile_options(${target} PRIVATE -Wno-tsan)  # the same for Asio's fences
    endif()
  endif()
endfunction()
