# Whether this LibTorch can train on many ranks: tried with a group of one, since a header says little about a build.

# encore_find_dist(result): ON or OFF in `result`; what is missing is said.
function(encore_find_dist result)
  set(${result} OFF PARENT_SCOPE)
  if(NOT ENCORE_WITH_DIST)
    return()
  endif()
  if(NOT DEFINED ENCORE_DIST_RUNS)
    separate_arguments(flags NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
    try_run(ENCORE_DIST_RUNS ENCORE_DIST_COMPILES
      SOURCES ${PROJECT_SOURCE_DIR}/cmake/dist_probe.cpp
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${TORCH_INCLUDE_DIRS}"
      COMPILE_DEFINITIONS ${flags}
      LINK_LIBRARIES ${TORCH_LIBRARIES}
      COMPILE_OUTPUT_VARIABLE compiled RUN_OUTPUT_VARIABLE ran
      CXX_STANDARD ${ENCORE_CXX_STANDARD} CXX_STANDARD_REQUIRED ON)
    set(why "")
    if(NOT ENCORE_DIST_COMPILES)
      string(REGEX MATCH "[^\n]*(error|undefined)[^\n]*" why "${compiled}")
      string(REGEX MATCH "gloo/[^\n]*" gloo "${why}")
      if(gloo)
        string(APPEND why " (Gloo's headers; Debian's libgloo-dev has them)")
      endif()
    elseif(NOT ENCORE_DIST_RUNS EQUAL 0)
      set(why "the trial ended with ${ENCORE_DIST_RUNS}: ${ran}")
    endif()
    set(ENCORE_DIST_WANTS "${why}" CACHE INTERNAL "Why encore::dist is left out")
  endif()
  if(ENCORE_DIST_COMPILES AND "${ENCORE_DIST_RUNS}" STREQUAL "0")
    set(${result} ON PARENT_SCOPE)
  else()
    message(STATUS "encore::dist is left out, as this LibTorch can't train on many ranks: ${ENCORE_DIST_WANTS}")
  endif()
endfunction()
