# shellcheck shell=bash disable=SC2034
# The tests that run under the sanitizers, and with which options. Sourced.

# What reads foreign bytes or keeps books. A keeper reaps the helper that looks for leaks, so programs are not run here.
ASAN_TESTS='^(api|base|config|daemon|daemon_devices|daemon_workers|default_config|device|doctor|gpu|gpu_sampler|guard|health|http|jobs|keeper_unit|kubernetes_core|ledger|metrics|mig|mps|notify|nvml|queue_core|sim_nvml|sim_ptx|sim_state|slurm_step)_test$'
# What has threads.
TSAN_TESTS='^(daemon_workers|gpu_sampler|http|jobs|sim_nvml)_test$'

# For all that is run under them, with ROOT the tree.
sanitizer_options() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0
  export UBSAN_OPTIONS=print_stacktrace=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$ROOT/tools/tsan.supp
}
