# The installed package: find_package(encore 0.2) gives encore::encore, and encore::plan without LibTorch. Everything is
# found relative to where it stands, so that any prefix will do, and none need be known before `cmake --install`.
include(CMakePackageConfigHelpers)

set(ENCORE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/encore)

# encore_install_library(name): the library, and the file through which other projects find it.
function(encore_install_library name)
  install(TARGETS encore_${name} EXPORT encore-${name}-targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development)
  install(EXPORT encore-${name}-targets NAMESPACE encore:: DESTINATION ${ENCORE_CMAKE_DIR} COMPONENT development)
  export(EXPORT encore-${name}-targets NAMESPACE encore:: FILE ${PROJECT_BINARY_DIR}/encore-${name}-targets.cmake)
endfunction()

encore_install_library(plan)
if(ENCORE_WITH_TORCH)
  encore_install_library(encore)
  if(ENCORE_HAS_DIST)
    encore_install_library(dist)
  endif()
  install(DIRECTORY include/encore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
else()
  install(DIRECTORY include/encore/plan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/encore COMPONENT development)
  foreach(header bytes error export version)
    install(FILES include/encore/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/encore COMPONENT development)
  endforeach()
endif()

configure_package_config_file(cmake/encore-config.cmake.in ${PROJECT_BINARY_DIR}/encore-config.cmake
  INSTALL_DESTINATION ${ENCORE_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/encore-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/encore-config.cmake ${PROJECT_BINARY_DIR}/encore-config-version.cmake
  DESTINATION ${ENCORE_CMAKE_DIR} COMPONENT development)

# For those who build without CMake: pkg-config encore, pkg-config encore-plan. LibTorch has no file of that kind.
set(ENCORE_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ENCORE_PC_PREFIX /${ENCORE_PC_DIR} /)
string(REGEX REPLACE "/$" "" ENCORE_PC_PREFIX "${ENCORE_PC_PREFIX}")
set(ENCORE_PC_TORCH_CFLAGS)
set(ENCORE_PC_TORCH_LIBS)
if(ENCORE_WITH_TORCH)
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    get_filename_component(folder ${folder} REALPATH)
    if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      string(APPEND ENCORE_PC_TORCH_CFLAGS " -isystem ${folder}")
    endif()
  endforeach()
  get_filename_component(folder ${TORCH_LIBRARY} DIRECTORY)
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND ENCORE_PC_TORCH_LIBS " -L${folder} -Wl,-rpath,${folder}")
  endif()
  string(APPEND ENCORE_PC_TORCH_LIBS " -ltorch -ltorch_cpu -lc10")
  configure_file(cmake/encore.pc.in ${PROJECT_BINARY_DIR}/encore.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/encore.pc DESTINATION ${ENCORE_PC_DIR} COMPONENT development)
endif()
configure_file(cmake/encore-plan.pc.in ${PROJECT_BINARY_DIR}/encore-plan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/encore-plan.pc DESTINATION ${ENCORE_PC_DIR} COMPONENT development)

if(ENCORE_BUILD_COMMAND)
  install(TARGETS encore_command COMPONENT command)
  configure_file(src/tools/encore.1.in ${PROJECT_BINARY_DIR}/encore.1 @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/encore.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  install(FILES src/tools/encore.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME encore
    COMPONENT command)
endif()

# All that `cmake --install` looks for: what the preset `release` builds.
add_custom_target(encore_installed DEPENDS encore_plan $<TARGET_NAME_IF_EXISTS:encore_encore>
  $<TARGET_NAME_IF_EXISTS:encore_dist> $<TARGET_NAME_IF_EXISTS:encore_command> $<TARGET_NAME_IF_EXISTS:encore_python>)
