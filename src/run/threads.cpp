#include "run/threads.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX, more than <csignal>
#include <time.h>    // NOLINT(modernize-deprecated-headers)
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "run/machine.h"

namespace flashtile {
namespace {

constexpr int kMaxWorkers = 1023;

// Kernels use less than 64 KiB of stack; score modifiers are the caller's code. Untouched pages
// cost nothing.
constexpr std::size_t kStackBytes = 1 << 20;

// A worker that finished looks out for the next call this long before it sleeps, and a caller for
// its last worker: about what falling asleep and waking cost, so it can at most double the cost of
// either. Only while there is a CPU for each.
constexpr std::int64_t kSpinNanoseconds = 5000;

/// One call in progress, on its caller's stack. It is on the pool's list while workers may join.
struct Job {
  ShareBody body = nullptr;
  void* context = nullptr;
  std::int64_t shares = 0;
  int threads = 1;
  bool spin = false;  // as many CPUs as threads
  Affinity affinity;  // the caller's
  std::atomic<std::int64_t> begun{0};

  // Guarded by the pool's mutex. `inside` is also read without it.
  int joined = 1;              // worker numbers given out; 0 is the caller's
  std::atomic<int> inside{0};  // workers that joined and have not left
  pthread_cond_t left = PTHREAD_COND_INITIALIZER;
  Job* next = nullptr;

  bool wants_workers() const noexcept { return joined < threads && begun.load(std::memory_order_relaxed) < shares; }
};

struct Worker {
  pthread_t thread;
  bool busy;      // inside a job
  bool detached;  // was busy when the process began to exit
};

// Constant-initialised and never destroyed, so it may be used before main and after it. Guarded by
// the mutex, except `posted`, which is also read without it.
struct Pool {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t work = PTHREAD_COND_INITIALIZER;
  Job* jobs = nullptr;
  int workers = 0, sleeping = 0, spinning = 0;
  bool stopping = false;
  std::atomic<std::uint32_t> posted{0};  // changes whenever there may be something to do
  Worker worker[kMaxWorkers] = {};
};
constinit Pool pool;

thread_local bool inside_share = false;

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" : : : "memory");  // `yield` does nothing on most cores
#endif
}

/// Takes the mutex. It is held for well under a microsecond at a time: a few tries save most of the
/// sleeps.
void acquire() noexcept {
  for (int i = 0; i < 50; ++i) {
    if (pthread_mutex_trylock(&pool.mutex) == 0) return;
    pause_briefly();
  }
  pthread_mutex_lock(&pool.mutex);
}
void release() noexcept { pthread_mutex_unlock(&pool.mutex); }

class Lock {
 public:
  Lock() noexcept { acquire(); }
  ~Lock() { release(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

std::int64_t nanoseconds() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Waits for a moment, or less when done() comes true.
template <class Done>
void spin_until(const Done& done) noexcept {
  const std::int64_t end = nanoseconds() + kSpinNanoseconds;
  while (!done() && nanoseconds() < end) pause_briefly();
}

/// Begins shares until none is left.
void take_part(Job& job, int number) noexcept {
  inside_share = true;
  for (;;) {
    const std::int64_t share = job.begun.fetch_add(1, std::memory_order_relaxed);
    if (share >= job.shares) break;
    job.body(job.context, number, share);
  }
  inside_share = false;
}

// ---- workers ------------------------------------------------------------------------------------

/// Of the jobs that want workers, the one with the fewest, the oldest of those: callers share the
/// pool evenly.
Job* choose_job() noexcept {
  Job* chosen = nullptr;
  for (Job* job = pool.jobs; job != nullptr; job = job->next)
    if (job->wants_workers() && (chosen == nullptr || job->inside.load() < chosen->inside.load())) chosen = job;
  return chosen;
}

/// Waits for a job to join; null when the process exits. REQUIRES: the mutex is held; it is on
/// return, too.
Job* next_job(bool spin) noexcept {
  while (!pool.stopping) {
    if (Job* job = choose_job()) return job;
    if (spin) {
      spin = false;
      ++pool.spinning;
      const std::uint32_t seen = pool.posted.load();
      release();
      spin_until([&] { return pool.posted.load(std::memory_order_relaxed) != seen; });
      acquire();
      --pool.spinning;
    } else {
      ++pool.sleeping;
      pthread_cond_wait(&pool.work, &pool.mutex);
      --pool.sleeping;
    }
  }
  return nullptr;
}

void* worker_main(void* argument) noexcept {
  Worker& self = *static_cast<Worker*>(argument);
  Affinity mine;
  read_affinity(mine);
  bool spin = false;
  acquire();
  while (Job* job = next_job(spin)) {
    const int number = job->joined++;
    job->inside.fetch_add(1);
    self.busy = true;
    release();

    if (!(mine == job->affinity) && adopt_affinity(job->affinity)) mine = job->affinity;
    take_part(*job, number);
    spin = job->spin;

    // The caller takes the mutex before its job ceases to be, so the job is there until this worker
    // gives it back.
    acquire();
    self.busy = false;
    if (job->inside.fetch_sub(1) == 1) pthread_cond_signal(&job->left);
  }
  release();
  return nullptr;
}

int create(Worker& worker, pthread_attr_t* attributes) noexcept {
  return pthread_create(&worker.thread, attributes, [](void* argument) { return worker_main(argument); }, &worker);
}

/// Starts one more worker; false when the system has no more. REQUIRES: the mutex is held.
bool start_worker() noexcept {
  // Signals are for the program's own threads; those that a fault raises cannot be put off.
  sigset_t others, before;
  sigfillset(&others);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&others, fault);
  pthread_sigmask(SIG_SETMASK, &others, &before);

  Worker& worker = pool.worker[pool.workers];
  worker = {};
  pthread_attr_t attributes;
  int failed = pthread_attr_init(&attributes);
  if (failed == 0) {
    pthread_attr_setstacksize(&attributes, kStackBytes);
    failed = create(worker, &attributes);
    pthread_attr_destroy(&attributes);
  }
  if (failed != 0) failed = create(worker, nullptr);  // a program whose thread-local data fill a small stack
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) ++pool.workers;
  return failed == 0;
}

// ---- callers ------------------------------------------------------------------------------------

/// Puts the job on the list and sees to it that up to `wanted` workers come.
void post(Job& job, int wanted) noexcept {
  int wake = 0;
  bool wake_all = false;
  {
    Lock lock;
    if (pool.stopping) return;
    Job** end = &pool.jobs;
    while (*end != nullptr) end = &(*end)->next;
    *end = &job;
    pool.posted.fetch_add(1);
    while (pool.workers < wanted && pool.workers < kMaxWorkers && start_worker()) {}
    wake = wanted - pool.spinning;
    wake_all = wake >= pool.sleeping && pool.sleeping > 1;
    if (wake > pool.sleeping) wake = pool.sleeping;
  }
  if (wake_all) {
    pthread_cond_broadcast(&pool.work);
  } else {
    for (; wake > 0; --wake) pthread_cond_signal(&pool.work);
  }
}

/// Takes the job off the list and waits for the workers that are still inside.
void retire(Job& job) noexcept {
  if (job.spin) spin_until([&] { return job.inside.load(std::memory_order_relaxed) == 0; });
  Lock lock;
  for (Job** at = &pool.jobs; *at != nullptr; at = &(*at)->next)
    if (*at == &job) {
      *at = job.next;
      break;
    }
  while (job.inside.load() != 0) pthread_cond_wait(&job.left, &pool.mutex);
}

// ---- fork, unload, exit -------------------------------------------------------------------------

void before_fork() noexcept { acquire(); }
void after_fork_in_parent() noexcept { release(); }

/// The child has one thread, the one that forked: no workers, nobody's jobs.
void after_fork_in_child() noexcept {
  pool.jobs = nullptr;
  pool.workers = pool.sleeping = pool.spinning = 0;
  pthread_cond_init(&pool.work, nullptr);
  release();
}

/// Sends the workers home when the library is unloaded or the process exits. One that is inside a
/// share then, because some thread exits the process under another's call, is left to the kernel:
/// to wait for it could be for ever.
void stop_workers() noexcept {
  int workers = 0;
  {
    Lock lock;
    pool.stopping = true;
    pool.posted.fetch_add(1);
    workers = pool.workers;
    for (int i = 0; i < workers; ++i) {
      Worker& worker = pool.worker[i];
      worker.detached = worker.busy;
      if (worker.busy) pthread_detach(worker.thread);
    }
  }
  pthread_cond_broadcast(&pool.work);
  for (int i = 0; i < workers; ++i)
    if (!pool.worker[i].detached) pthread_join(pool.worker[i].thread, nullptr);
}

struct Lifetime {
  Lifetime() noexcept {
    // Without the handlers a child could wait for ever: then there shall be no workers.
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) pool.stopping = true;
  }
  ~Lifetime() { stop_workers(); }
} const lifetime;

}  // namespace

void run_shares(int threads, std::int64_t shares, ShareBody body, void* context) noexcept {
  if (threads > shares) threads = static_cast<int>(shares);
  if (threads <= 1 || inside_share) {
    const bool outer = inside_share;
    inside_share = true;
    for (std::int64_t share = 0; share < shares; ++share) body(context, 0, share);
    inside_share = outer;
    return;
  }
  // Unwinding a cancelled caller would take the job away from under the workers.
  int cancel = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  Job job;
  job.body = body, job.context = context, job.shares = shares, job.threads = threads;
  read_affinity(job.affinity);
  job.spin = threads <= available_threads(job.affinity);
  post(job, threads - 1);
  take_part(job, 0);
  retire(job);
  pthread_setcancelstate(cancel, &cancel);
}

}  // namespace flashtile
