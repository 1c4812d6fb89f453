# What the sanitizers' runtimes are told when ctest runs a program: to be strict, and what is LibTorch's and not ours.

# encore_sanitizer_environment(): for every test that this directory has added so far.
function(encore_sanitizer_environment)
  if(NOT ENCORE_SANITIZE)
    return()
  endif()
  set(known ${PROJECT_SOURCE_DIR}/tests/sanitizers)
  set(environment
    "ASAN_OPTIONS=suppressions=${known}/asan.supp:strict_init_order=1:detect_stack_use_after_return=1"
    "LSAN_OPTIONS=suppressions=${known}/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${known}/tsan.supp:second_deadlock_stack=1"
    "UBSAN_OPTIONS=suppressions=${known}/ubsan.supp:print_stacktrace=1")
  if(ENCORE_SANITIZE MATCHES thread)
    # libgomp is not instrumented: to the thread sanitizer its barriers order nothing, and every parallel op races.
    list(APPEND environment "OMP_NUM_THREADS=1")
  endif()
  get_property(tests DIRECTORY PROPERTY TESTS)
  set_tests_properties(${tests} PROPERTIES ENVIRONMENT "${environment}")
endfunction()
