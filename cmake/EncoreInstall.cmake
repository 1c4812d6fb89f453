# The installed package: find_package(encore) gives encore::encore, and encore::plan without LibTorch.
include(CMakePackageConfigHelpers)

set(ENCORE_INSTALL_TARGETS encore_plan)
if(TARGET encore_encore)
  list(APPEND ENCORE_INSTALL_TARGETS encore_encore)
endif()
install(TARGETS ${ENCORE_INSTALL_TARGETS} EXPORT encore-targets)
install(DIRECTORY include/encore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT encore-targets NAMESPACE encore:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/encore)
configure_package_config_file(cmake/encore-config.cmake.in ${PROJECT_BINARY_DIR}/encore-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/encore)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/encore-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/encore-config.cmake ${PROJECT_BINARY_DIR}/encore-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/encore)
