# CPack's part of the .deb packages; tools/dev/package.sh adds the documents that Debian asks for and builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpuman)
set(CPACK_PACKAGE_VENDOR gpuman)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU memory limits and supervised GPU jobs")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# Who publishes the packages fills these in; ./dev package takes both from its environment and says so where they are not.
set(GPUMAN_MAINTAINER "FILL IN GPUMAN_MAINTAINER <fill-in@gpuman.invalid>" CACHE STRING "Name <address>, of the packages")
set(GPUMAN_HOMEPAGE "https://fill-in-gpuman-homepage.invalid/" CACHE STRING "The project's address, of the packages")
set(CPACK_PACKAGE_CONTACT "${GPUMAN_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "${GPUMAN_HOMEPAGE}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
# What debuggers need goes into NAME-dbgsym packages beside (.ddeb), by the build id; the programs are stripped then.
set(CPACK_STRIP_FILES OFF)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL gpuman sim)
if(TARGET spank_gpuman)
  list(APPEND CPACK_COMPONENTS_ALL slurm)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_GPUMAN_PACKAGE_NAME gpuman)
set(CPACK_DEBIAN_GPUMAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_GPUMAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GPUMAN_PACKAGE_DEPENDS "passwd, init-system-helpers (>= 1.52)")
# Certificates of those that webhooks and mails are sent to.
set(CPACK_DEBIAN_GPUMAN_PACKAGE_RECOMMENDS "ca-certificates, libdw1 | libdw1t64")
set(CPACK_DEBIAN_GPUMAN_PACKAGE_SUGGESTS "gpuman-sim")
set(CPACK_COMPONENT_GPUMAN_DESCRIPTION "Runs programs that use NVIDIA GPUs under a memory limit of their own and
ends the one that passes it, so that its neighbours on the GPU go on.
A daemon, a command line, and a service for systemd.")
set(CPACK_DEBIAN_GPUMAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/postinst;${CMAKE_CURRENT_LIST_DIR}/prerm;${CMAKE_CURRENT_LIST_DIR}/postrm;${CMAKE_CURRENT_LIST_DIR}/conffiles)

list(APPEND CPACK_COMPONENTS_ALL kubernetes)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_NAME gpuman-kubernetes)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_RECOMMENDS "gpuman (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_KUBERNETES_DESCRIPTION "Kubernetes' device plugin of gpuman: offers the GPUs of a node whole, by
memory, in slices, in turns and as MIG instances, with their health from
gpumand. With manifests and a Helm chart.
.
A node needs kubelet 1.20 or newer, NVIDIA's driver and, as a rule, NVIDIA's
container toolkit, none of which Debian has. Limits of memory and the health of
GPUs need gpumand on the node, of the package gpuman. Usually the program runs
in an image made by the Containerfile of gpuman's source instead.")

set(CPACK_DEBIAN_SIM_PACKAGE_NAME gpuman-sim)
set(CPACK_DEBIAN_SIM_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_SIM_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SIM_DESCRIPTION "The simulated driver and the test load of gpuman: gpuman-sim runs a
command on a simulated NVIDIA driver (NVML and the CUDA driver API) on
machines without a GPU, and makes faults in it; gpuman-load is a program
that uses GPU memory and checks its data.")

# The plugin fits the Slurm that it was built with: it refuses another one's programs.
set(CPACK_DEBIAN_SLURM_PACKAGE_NAME gpuman-slurm)
set(CPACK_DEBIAN_SLURM_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_SLURM_PACKAGE_SHLIBDEPS ON)
if(SLURM_INCLUDE_DIR AND EXISTS ${SLURM_INCLUDE_DIR}/slurm/slurm_version.h)
  file(STRINGS ${SLURM_INCLUDE_DIR}/slurm/slurm_version.h slurm_version REGEX "define SLURM_VERSION_NUMBER 0x")
  string(REGEX REPLACE ".*0x([0-9a-fA-F]+)([0-9a-fA-F][0-9a-fA-F])[0-9a-fA-F][0-9a-fA-F].*" "\\1;\\2" slurm_version "${slurm_version}")
  list(TRANSFORM slurm_version PREPEND 0x)
  list(GET slurm_version 0 slurm_major)
  list(GET slurm_version 1 slurm_minor)
  math(EXPR slurm_major "${slurm_major}")
  math(EXPR slurm_minor "100 + ${slurm_minor}")
  string(SUBSTRING ${slurm_minor} 1 2 slurm_minor)
  set(slurm_version "Slurm ${slurm_major}.${slurm_minor}")
else()
  set(slurm_version "the Slurm that it was built with")
endif()
# One of Debian's packages, or of SchedMD's own: nodes have slurmd, login machines the client alone.
set(CPACK_DEBIAN_SLURM_PACKAGE_DEPENDS "slurm-client | slurmd | slurm-smd-client | slurm-smd-slurmd")
set(CPACK_DEBIAN_SLURM_PACKAGE_RECOMMENDS "gpuman (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_SLURM_DESCRIPTION "Limits of GPU memory in Slurm: a SPANK plugin with the options
--gpuman-mem, --gpuman-soft, --gpuman-share and --gpuman-compute of srun, sbatch and salloc,
which holds each step, and its shards, by the node's gpumand; and an epilog.
.
It fits ${slurm_version}, which refuses it else. Wanted on every node and wherever
jobs are submitted; nodes with GPUs also need gpumand, of the package gpuman.")

# What Debian asks of every package.
set(documents ${CMAKE_CURRENT_BINARY_DIR}/documents)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  if(component STREQUAL "gpuman")
    set(package gpuman)
  else()
    set(package gpuman-${component})
  endif()
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION share/doc/${package} COMPONENT ${component})
  install(FILES ${documents}/changelog.Debian.gz DESTINATION share/doc/${package} COMPONENT ${component})
endforeach()
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog.Debian
"gpuman (${PROJECT_VERSION}-1) unstable; urgency=medium

  * See /usr/share/doc/gpuman/changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${changelog_date}
")
execute_process(COMMAND gzip -9nkf ${documents}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
file(COPY_FILE ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${documents}/changelog ONLY_IF_DIFFERENT)
execute_process(COMMAND gzip -9nkf ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${documents}/changelog.gz DESTINATION share/doc/gpuman COMPONENT gpuman)
include(CPack)
