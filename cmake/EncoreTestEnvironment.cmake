# What programs find in their environment when ctest runs them.

# encore_test_environment(): for every test that this directory has added so far.
function(encore_test_environment)
  get_property(tests DIRECTORY PROPERTY TESTS)
  # Threads that wait for each other by spinning take a test ten times as long where others want the processor, too.
  set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT "OMP_WAIT_POLICY=passive")
  if(ENCORE_SANITIZE)
    encore_sanitizer_environment(${tests})
  endif()
endfunction()

# The sanitizers' runtimes are told to be strict, and what is LibTorch's and not ours.
function(encore_sanitizer_environment)
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
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT "${environment}")
endfunction()
