# The Python module `encore`: python/encore, and beside it _core, which is src/python over the C++ library. In the build
# tree it stands in <build>/python; `cmake --install <build> --component python` puts it where Debian's Python looks.
find_program(ENCORE_TORCH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)  # whose torch is the LibTorch linked here
set(Python_EXECUTABLE ${ENCORE_TORCH_PYTHON})
set(PYBIND11_FINDPYTHON ON)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 REQUIRED)
# Turns tensors into Python objects and back.
get_filename_component(torch_folder ${TORCH_LIBRARY} DIRECTORY)
find_library(TORCH_PYTHON_LIBRARY torch_python HINTS ${torch_folder} REQUIRED)
# Debian's Python looks into lib/python3 below /usr, and into lib/python3.11 below /usr/local.
set(python_dir lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/dist-packages)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(python_dir lib/python3/dist-packages)
endif()
set(ENCORE_PYTHON_DIR ${python_dir} CACHE STRING "Where the Python module is installed, below the prefix")

target_include_directories(encore_python_objects SYSTEM PRIVATE ${Python_INCLUDE_DIRS} ${pybind11_INCLUDE_DIRS})
pybind11_add_module(encore_python MODULE NO_EXTRAS $<TARGET_OBJECTS:encore_python_objects>)
encore_target(encore_python TORCH)
target_link_libraries(encore_python PRIVATE encore_encore ${TORCH_PYTHON_LIBRARY})
file(RELATIVE_PATH to_libraries /${ENCORE_PYTHON_DIR}/encore /${CMAKE_INSTALL_LIBDIR})
set(python_folder ${PROJECT_BINARY_DIR}/python/encore)
set_target_properties(encore_python PROPERTIES
  OUTPUT_NAME _core
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${python_folder}
  INSTALL_RPATH "$ORIGIN/${to_libraries}"
  INSTALL_RPATH_USE_LINK_PATH ON)

file(GLOB python_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/encore/*)
list(FILTER python_files EXCLUDE REGEX "__pycache__")
file(MAKE_DIRECTORY ${python_folder})
foreach(file IN LISTS python_files)
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${python_folder}/${name} SYMBOLIC)
endforeach()
if(ENCORE_INSTALL)
  install(TARGETS encore_python LIBRARY DESTINATION ${ENCORE_PYTHON_DIR}/encore COMPONENT python)
  install(FILES ${python_files} DESTINATION ${ENCORE_PYTHON_DIR}/encore COMPONENT python)
endif()
