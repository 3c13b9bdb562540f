# CPack's part of the .deb packages; tools/dev/package.sh adds the documents that Debian asks for and builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpuman)
set(CPACK_PACKAGE_VENDOR gpuman)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU memory limits and supervised GPU jobs")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "gpuman maintainers <maintainers@gpuman.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
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
set(CPACK_DEBIAN_GPUMAN_PACKAGE_RECOMMENDS "ca-certificates")
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
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_RECOMMENDS "gpuman")
set(CPACK_COMPONENT_KUBERNETES_DESCRIPTION "Kubernetes' device plugin of gpuman: offers the GPUs of a node whole, by
memory, in slices, in turns and as MIG instances, with their health from
gpumand. With manifests and a Helm chart.")

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
set(CPACK_DEBIAN_SLURM_PACKAGE_RECOMMENDS "gpuman, slurm-client")
set(CPACK_COMPONENT_SLURM_DESCRIPTION "Limits of GPU memory in Slurm: a SPANK plugin with the options
--gpuman-mem, --gpuman-soft and --gpuman-share of srun, sbatch and salloc,
which holds each step, and its shards, by the node's gpumand; and an epilog.")

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
