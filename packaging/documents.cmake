# README.md and what its links lead to, as they lie in the checkout, so that every link leads somewhere. The packages have
# the licence and the changes under the names that Debian gives them (deb/package.cmake): there the README names these.
get_filename_component(documents_from ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
install(DIRECTORY ${documents_from}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.yaml" PATTERN "*.svg" PATTERN "*.png")
install(FILES ${documents_from}/CONTRIBUTING.md ${documents_from}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${documents_from}/README.md)
  file(READ ${documents_from}/README.md readme)
  string(REPLACE "](CHANGELOG.md)" "](changelog.gz)" readme "${readme}")
  string(REPLACE "](LICENSE)" "](copyright)" readme "${readme}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/README.md CONTENT "@readme@" @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
else()
  install(FILES ${documents_from}/README.md ${documents_from}/CHANGELOG.md ${documents_from}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
