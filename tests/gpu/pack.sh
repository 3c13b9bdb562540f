#!/usr/bin/env bash
# Makes DEST a build directory that can be copied to another machine: the programs and tests of BUILD_DIR (configured
# with -DGPUMAN_STATIC_DEPS=ON) without symbols, and the shared objects that a bare machine may lack.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: tests/gpu/pack.sh BUILD_DIR DEST" >&2; exit 2; }
build=$1 dest=$2
rm -rf "${dest:?}/bin" "${dest:?}/tests" "${dest:?}/lib" "${dest:?}/bench"
mkdir -p "$dest/bin" "$dest/tests" "$dest/lib/carry" "$dest/bench/shim" "$dest/bench/null_driver"

for program in gpuman gpumand gpuman-keeper gpuman-mover gpuman-load gpuman-sim; do
  [ ! -x "$build/bin/$program" ] || strip -o "$dest/bin/$program" "$build/bin/$program"
done
strip -o "$dest/tests/conformance_test" "$build/tests/conformance_test"
# The files that shim_session.sh needs, and a test that run.sh runs as well.
for file in lib/libgpuman.so tests/ledger_server tests/hasher_test tests/race_load tests/handles_probe tests/stream_wait_probe bench/shim/shim_calls bench/null_driver/libcuda.so.1; do
  [ ! -f "$build/$file" ] || strip -o "$dest/$file" "$build/$file"
done

# The C library belongs to the machine; all other libraries are copied.
for program in "$dest"/bin/* "$dest"/tests/* "$dest"/bench/shim/*; do
  ldd "$program" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' || true
done | sort -u | while read -r object; do
  cp -L "$object" "$dest/lib/carry/"
done
du -sh "$dest"
