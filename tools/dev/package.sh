#!/usr/bin/env bash
# The .deb packages of this checkout: build/package/packages.
. tools/dev/common.sh

need build package
# Compiled as the preset release is, so that the compiler's cache has it after ./dev build.
quiet configure-package cmake --preset release -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DGPUMAN_TESTS=OFF -DGPUMAN_BENCHMARKS=OFF
say "building the packages; to watch: tail -f build/log/build-package.log"
quiet build-package cmake --build build/package --parallel "$(build_jobs)"
rm -rf build/package/packages
(cd build/package && umask 022 && cpack -G DEB >../log/cpack.log 2>&1) || {
  tail -n 50 build/log/cpack.log >&2
  die "cpack failed"
}
packages=(build/package/packages/*.deb)
say "== lintian"
lintian --fail-on error --tag-display-limit 0 --suppress-tags-from-file packaging/deb/lintian-suppressed "${packages[@]}"
for package in "${packages[@]}"; do
  say "$package ($(du -h "$package" | cut -f1))"
done
