# Debian packages, by `cpack`: the libraries (libencore0), what builds against them (libencore-dev), and the command
# (encore), which needs neither. `make packages` configures for /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME encore)
set(CPACK_PACKAGE_CONTACT "The Encore maintainers <encore@example.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libencore${ENCORE_ABI})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION 
  "Trains a LibTorch model inside a stated number of bytes, with the gradients of the plain run bit for bit.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libencore-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libencore${ENCORE_ABI} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
if(ENCORE_WITH_TORCH)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libtorch-dev")
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION 
  "Headers, and the files through which CMake and pkg-config find the libraries.")

set(packages library=libencore${ENCORE_ABI} development=libencore-dev)
if(ENCORE_BUILD_COMMAND)
  list(APPEND CPACK_COMPONENTS_ALL command)
  list(APPEND packages command=encore)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME encore)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
  set(CPACK_COMPONENT_COMMAND_DESCRIPTION 
    "Plans what a training step keeps and what it computes again, and shows runs; needs no LibTorch.")
endif()
# Debian wants the licence under each package's own name; `cmake --install` without a component leaves these out.
foreach(package IN LISTS packages)
  string(REPLACE "=" ";" package ${package})
  list(POP_FRONT package component name)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright COMPONENT ${component}
    EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
