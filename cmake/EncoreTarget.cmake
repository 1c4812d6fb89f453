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
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
  if(ENCORE_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  if(ENCORE_CHECKS)
    target_compile_definitions(${name} PRIVATE ENCORE_CHECKS)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  if(arg_TORCH)
    target_include_directories(${name} SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
    separate_arguments(torch_flags NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
    target_compile_options(${name} PRIVATE ${torch_flags})
    # Some of LibTorch's classes have other members without NDEBUG than the ones its binaries were built with.
    target_compile_definitions(${name} PRIVATE NDEBUG)
    target_include_directories(${name} SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
    target_compile_definitions(${name} PRIVATE XXH_INLINE_ALL)
  endif()
  if(ENCORE_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${ENCORE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    # GCC takes members of LibTorch's optional types for uninitialised once the sanitizers' checks stand between.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${name} PRIVATE -fsanitize=${ENCORE_SANITIZE})
  endif()
endfunction()

# encore_module(name [TORCH] [APART files...] [DEPENDS modules...]): the sources of src/<name>, as an object library. Files
# that use a name for something else than the module's others are compiled apart from them.
function(encore_module name)
  cmake_parse_arguments(arg "TORCH" "" "APART;DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(encore_${name}_objects OBJECT ${sources})
  encore_unity(encore_${name}_objects)
  foreach(file IN LISTS arg_APART)
    set_source_files_properties(src/${name}/${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  if(arg_TORCH)
    encore_target(encore_${name}_objects TORCH)
  else()
    encore_target(encore_${name}_objects)
  endif()
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
    target_precompile_headers(encore_pch PRIVATE ${PROJECT_SOURCE_DIR}/src/tape/torch.h)
  endif()
  target_precompile_headers(${name} REUSE_FROM encore_pch)
endfunction()

# What uses the library as its users do (workloads, examples, tests, benchmarks) shares another one.
function(encore_user_pch name)
  if(NOT TARGET encore_user_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/encore_user_pch.cpp "// Holds the precompiled header.\n")
    add_library(encore_user_pch OBJECT ${PROJECT_BINARY_DIR}/encore_user_pch.cpp)
    encore_target(encore_user_pch TORCH)
    target_link_libraries(encore_user_pch PRIVATE encore::encore)  # for LibTorch's definitions
    target_precompile_headers(encore_user_pch PRIVATE <torch/torch.h> <encore/encore.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM encore_user_pch)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # A precompiled header is bound to its flags: the library's -fPIC, not an executable's -fPIE.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
endfunction()

# encore_unity(target): all sources of a target as one unit. Each unit reads a precompiled header of 200 MB.
function(encore_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ENCORE_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  if(ENCORE_UNITY)
    # GCC takes files that are included for headers, whose classes should not have parts without a linkage.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# encore_library(name FILE file MODULES modules... [LINKS libraries...]): a library made of modules, exported as
# encore::<name>; shared or static, as BUILD_SHARED_LIBS says.
function(encore_library name)
  cmake_parse_arguments(arg "" "FILE" "MODULES;LINKS" ${ARGN})
  set(target encore_${name})
  set(objects)
  foreach(module IN LISTS arg_MODULES)
    list(APPEND objects $<TARGET_OBJECTS:encore_${module}_objects>)
  endforeach()
  add_library(${target} ${objects})
  add_library(encore::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    OUTPUT_NAME ${arg_FILE}
    LINKER_LANGUAGE CXX
    INSTALL_RPATH "$ORIGIN"
    INSTALL_RPATH_USE_LINK_PATH ON  # a LibTorch outside of the system's folders
    VERSION ${PROJECT_VERSION}
    SOVERSION ${ENCORE_ABI})
  encore_target(${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_${ENCORE_CXX_STANDARD})
  target_link_libraries(${target} PUBLIC ${arg_LINKS})
endfunction()
