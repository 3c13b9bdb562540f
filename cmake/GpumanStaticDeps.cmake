# GPUMAN_STATIC_DEPS: programs that run on a machine with nothing but a C library, such as one lent for its GPU.
#
# fmt and spdlog become headers, SQLite and the C++ library static. What is only there as a shared object is
# found in lib/carry beside bin/ and tests/, where tests/gpu/pack.sh puts a copy; DT_RPATH, which the copies' own
# dependencies follow too.
foreach(target fmt::fmt fmt::fmt-header-only)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(${target} INTERFACE FMT_HEADER_ONLY=1)
endforeach()
foreach(target spdlog::spdlog spdlog::spdlog_header_only)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(${target} INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(${target} INTERFACE fmt::fmt Threads::Threads)
endforeach()

find_library(GPUMAN_SQLITE_STATIC libsqlite3.a REQUIRED)
set(SQLite3_LIBRARY ${GPUMAN_SQLITE_STATIC} CACHE FILEPATH "" FORCE)

add_link_options(-static-libstdc++ -static-libgcc -Wl,--disable-new-dtags)
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib/carry")
