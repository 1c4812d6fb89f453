# One helper sets language, warnings, visibility and sanitizers for every target of the tree.

# LibTorch 1.13 is C++14 and newer compilers' C++17; 2.14 does not compile below C++20.
if(DEFINED Torch_VERSION AND Torch_VERSION VERSION_GREATER_EQUAL 2.12)
  set(ENCORE_CXX_STANDARD 20)
else()
  set(ENCORE_CXX_STANDARD 17)
endif()

function(encore_target name)
  cmake_parse_arguments(arg "TORCH" "" "" ${ARGN})
  set_target_properties(${name} PROPERTIES
    CXX_STANDARD ${ENCORE_CXX_STANDARD}
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  if(arg_TORCH)
    target_include_directories(${name} SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
    separate_arguments(torch_flags NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
    target_compile_options(${name} PRIVATE ${torch_flags})
    # Some of LibTorch's classes have other members without NDEBUG than the ones its binaries were built with.
    target_compile_definitions(${name} PRIVATE NDEBUG)
    target_link_libraries(${name} PRIVATE PkgConfig::XXHASH)
  endif()
  if(ENCORE_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${ENCORE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    # GCC takes members of LibTorch's optional types for uninitialised once the sanitizers' checks stand between.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${name} PRIVATE -fsanitize=${ENCORE_SANITIZE})
  endif()
endfunction()

# encore_module(name [TORCH] [DEPENDS modules...]): the sources of src/<name>, as an object library.
function(encore_module name)
  cmake_parse_arguments(arg "TORCH" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(encore_${name}_objects OBJECT ${sources})
  if(arg_TORCH)
    encore_target(encore_${name}_objects TORCH)
  else()
    encore_target(encore_${name}_objects)
  endif()
  target_compile_definitions(encore_${name}_objects PRIVATE ENCORE_BUILDING)
  if(arg_TORCH)
    encore_torch_pch(encore_${name}_objects)
  endif()
endfunction()

# The torch headers take most of the build time: every torch target shares one precompiled header.
function(encore_torch_pch name)
  if(NOT TARGET encore_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/encore_pch.cpp "// Holds the precompiled header.\n")
    add_library(encore_pch OBJECT ${PROJECT_BINARY_DIR}/encore_pch.cpp)
    encore_target(encore_pch TORCH)
    target_compile_definitions(encore_pch PRIVATE ENCORE_BUILDING)
    target_precompile_headers(encore_pch PRIVATE ${PROJECT_SOURCE_DIR}/src/tape/torch.h)
  endif()
  target_precompile_headers(${name} REUSE_FROM encore_pch)
endfunction()

# encore_library(name MODULES modules... [LINKS libraries...]): a library made of modules, exported as encore::<name>.
function(encore_library name)
  cmake_parse_arguments(arg "" "" "MODULES;LINKS" ${ARGN})
  set(target encore_${name})
  set(objects)
  foreach(module IN LISTS arg_MODULES)
    list(APPEND objects $<TARGET_OBJECTS:encore_${module}_objects>)
  endforeach()
  add_library(${target} SHARED ${objects})
  add_library(encore::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    LINKER_LANGUAGE CXX
    INSTALL_RPATH "$ORIGIN"
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  encore_target(${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_${ENCORE_CXX_STANDARD})
  target_link_libraries(${target} PUBLIC ${arg_LINKS})
endfunction()
