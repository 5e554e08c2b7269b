// Public bugs, group A9: threads, processes, CPU features, memory, as a caller of the library meets them. The pool
// itself has tests of its own. Each test is named after its case; the thread that reported the bug is quoted beside it.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "support/compare.h"
#include "support/process.h"

namespace flashtile::testing {
namespace {

const Shape kShape{.batch = 2, .queries = 33, .keys = 70, .q_heads = 4, .kv_heads = 2, .head_dim = 24, .value_dim = 16};

Case usual(const Setting& s, int threads, std::uint64_t seed = 91) {
  Case c(kShape, s.dtype);
  c.fill_normal(seed);
  c.options.isa = s.isa, c.options.threads = threads, c.options.causal = true;
  return c;
}

// pytorch#98836, #155201, PR #191971, #44282: two OpenMP run times in one process. There is none of ours.
TEST(A9_ThreadsProcessesFeatures, A9_1_NoOpenMpRuntimeIsLoaded) {
  Case c = usual({}, 2);
  ASSERT_TRUE(c.run().ok());
  const std::string maps = mapped_files();
  if (maps.empty()) GTEST_SKIP() << "/proc/self/maps cannot be read here";
  for (const char* name : {"libgomp", "libomp", "libiomp"}) EXPECT_EQ(maps.find(name), std::string::npos) << name;
}

// ollama#17916, lilbee PR #660: threads by the machine's cores inside a smaller cgroup.
TEST(A9_ThreadsProcessesFeatures, A9_2_DefaultIsAffinityAndWholeCpusOfTheQuota) {
  const MachineReport machine = machine_report();
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(machine.affinity, CPU_COUNT(&mask));
  int expected = machine.affinity;
  if (machine.cgroup_quota > 0) expected = std::min(expected, std::max(1, static_cast<int>(machine.cgroup_quota)));
  EXPECT_EQ(machine.threads, expected);
  EXPECT_EQ(usual({}, 0).planned().facts().threads, expected);
  EXPECT_EQ(usual({}, 3).planned().facts().threads, 3);
}

TEST(A9_ThreadsProcessesFeatures, A9_2_AffinityOfTheMomentCounts) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int threads = usual({}, 0).planned().facts().threads;
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads, 1);
}

// vllm#43240, #35789, #25818: the caller's CPUs are its own.
TEST(A9_ThreadsProcessesFeatures, A9_3_AffinityOfTheCallerIsLeftAsFound) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (int threads : {0, 1, 4}) {
    Case c = usual({}, threads);
    ASSERT_TRUE(c.run().ok());
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << threads;
  }
}

// pytorch#64412, #131290, #19163, oneDNN#1464: each calling thread got a pool of its own.
TEST(A9_ThreadsProcessesFeatures, A9_4_ShortLivedCallersShareOnePool) {
  Case first = usual({}, 3);
  ASSERT_TRUE(first.run().ok());
  const int before = thread_count();
  if (before < 0) GTEST_SKIP() << "/proc/self/task cannot be read here";
  for (int n = 0; n < 20; ++n) {
    std::thread([&] {
      Case c = usual({}, 3);
      EXPECT_TRUE(c.run().ok());
      EXPECT_TRUE(same_bits(c.out, first.out));
    }).join();
  }
  // A thread that was joined may still be listed for a moment.
  for (int patience = 0; patience < 1000 && thread_count() > before; ++patience) usleep(1000);
  EXPECT_LE(thread_count(), before);
}

TEST(A9_ThreadsProcessesFeatures, A9_4_CallersAtOnceGetTheirOwnAnswers) {
  FT_FOR_EACH_SETTING(s) {
    std::vector<Case> alone;
    for (int n = 0; n < 4; ++n) {
      alone.push_back(usual(s, 1, 91 + n));
      ASSERT_TRUE(alone.back().run().ok());
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int n = 0; n < 4; ++n)
      callers.emplace_back([&, n] {
        for (int again = 0; again < 5; ++again) {
          Case c = usual(s, 1 + again % 4, 91 + n);
          if (!c.run().ok() || !same_bits(c.out, alone[n].out) || !same_bits(c.lse, alone[n].lse)) ++wrong;
        }
      });
    for (std::thread& t : callers) t.join();
    EXPECT_EQ(wrong, 0);
  }
}

struct Nested {
  const Case* expected;
  std::atomic<int> calls{0}, wrong{0};
};

// The same threads: a call from inside a worker runs there, and neither waits for ever nor starts threads.
TEST(A9_ThreadsProcessesFeatures, A9_4_CallFromInsideAWorkerRuns) {
  FT_FOR_EACH_SETTING(s) {
    Case inner = usual(s, 2), outer = usual(s, 3), plain = usual(s, 3);
    ASSERT_TRUE(inner.run().ok());
    Nested nested{&inner, {}, {}};
    outer.options.score_modifier.context = &nested;
    outer.options.score_modifier.apply = [](void* context, const ScoreTile&) {
      Nested& n = *static_cast<Nested*>(context);
      Case c(n.expected->shape, n.expected->dtypes);
      c.copy_inputs(*n.expected);
      c.options = n.expected->options;
      ++n.calls;
      if (!c.run().ok() || !same_bits(c.out, n.expected->out)) ++n.wrong;
    };
    ASSERT_TRUE(outer.run().ok());
    EXPECT_GT(nested.calls, 0);
    EXPECT_EQ(nested.wrong, 0);
    ASSERT_TRUE(plain.run().ok());
    const std::vector<double> x = outer.out.values(), y = plain.out.values();  // the modifier changed no score
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], s.dtype == DType::f32 ? 1e-5 : 0.02);
  }
}

// A forked child has none of the parent's threads.
TEST(A9_ThreadsProcessesFeatures, A9_4_ForkedChildComputesTheSameBits) {
  if (kThreadSanitizer) GTEST_SKIP() << "thread sanitizer does not follow a fork of a process with threads";
  // qemu-user 7.2 fails an assertion of its own here; the same question without flashtile tells.
  Case first = usual({}, 3);
  ASSERT_TRUE(first.run().ok());
  const auto starts_thread = [] {
    for (int n = 0; n < 4; ++n) std::thread([] {}).join();
    return true;
  };
  if (!true_in_child(starts_thread)) GTEST_SKIP() << "a forked child cannot start a thread on this system";
  FT_FOR_EACH_SETTING(s) {
    Case parent = usual(s, 3);
    ASSERT_TRUE(parent.run().ok());
    const auto again = [&] {
      Case child = usual(s, 3);
      return child.run().ok() && same_bits(child.out, parent.out) && same_bits(child.lse, parent.lse);
    };
    EXPECT_TRUE(true_in_child(again));
    EXPECT_TRUE(true_in_child([&] { return true_in_child(again) && again(); })) << "grandchild";
    EXPECT_TRUE(again()) << "parent after the fork";
  }
}

// llama.cpp PR #26954, sglang#28992, gramine PR #422: tile configuration and permission belong to each thread.
TEST(A9_ThreadsProcessesFeatures, A9_5_FreshThreadsRunEveryInstructionSet) {
  for (const Setting& s : settings({DType::bf16})) {
    SCOPED_TRACE(s.text());
    Case main = usual(s, 1);
    ASSERT_TRUE(runs_right(main));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int n = 0; n < 6; ++n)
      threads.emplace_back([&] {
        for (int again = 0; again < 3; ++again) {
          Case c = usual(s, 1);
          if (!c.run().ok() || !same_bits(c.out, main.out)) ++wrong;
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
  }
}

// jax#2906, stable-diffusion.cpp#1343, OpenBLAS#4069: what is not there is not used, and a cap is obeyed.
TEST(A9_ThreadsProcessesFeatures, A9_6_EveryInstructionSetIsReportedWithAReason) {
  IsaReport reports[16];
  const int n = isa_reports(reports, 16);
  ASSERT_GE(n, 1);
  ASSERT_LE(n, 16);
  int chosen = 0;  // of the fma family; amx stands beside it, for bf16
  bool scalar = false;
  for (int i = 0; i < n; ++i) {
    EXPECT_NE(std::string(reports[i].name), "");
    EXPECT_TRUE(reports[i].built || !reports[i].available) << reports[i].name;
    EXPECT_TRUE(reports[i].available || !reports[i].chosen) << reports[i].name;
    EXPECT_EQ(reports[i].reason[0] == '\0', reports[i].chosen) << reports[i].name << ": " << reports[i].reason;
    if (reports[i].isa == Isa::amx) {
      EXPECT_TRUE(reports[i].chosen || !reports[i].available || std::getenv("FLASHTILE_ISA") != nullptr);
    } else {
      chosen += reports[i].chosen;
    }
    scalar = scalar || (reports[i].isa == Isa::scalar && reports[i].available);
    Isa parsed = Isa::automatic;
    EXPECT_TRUE(parse_isa(reports[i].name, parsed));
    EXPECT_EQ(parsed, reports[i].isa) << reports[i].name;
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_TRUE(scalar);
}

TEST(A9_ThreadsProcessesFeatures, A9_6_CapIsObeyedAndFp32StaysInTheFmaFamily) {
  if (std::getenv("FLASHTILE_ISA") != nullptr) GTEST_SKIP() << "FLASHTILE_ISA caps every choice";
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of_isa(isa));
    const PlanFacts facts = usual({isa, DType::f32}, 1).planned().facts();
    EXPECT_EQ(std::string(facts.arithmetic), "fma");
    if (isa == Isa::amx || isa == Isa::amx_emulated) continue;
    EXPECT_EQ(std::string(facts.isa), name_of_isa(isa));
  }
}

// sglang#11044, vllm#49640: the 16-bit path of AVX-512 machines asked for AMX.
TEST(A9_ThreadsProcessesFeatures, A9_7_SixteenBitInputsUseTheVectorUnitsThatAreThere) {
  if (std::getenv("FLASHTILE_ISA") != nullptr) GTEST_SKIP() << "FLASHTILE_ISA caps every choice";
  for (Isa isa : available_isas()) {
    if (isa == Isa::amx_emulated) continue;
    SCOPED_TRACE(name_of_isa(isa));
    for (DType dtype : {DType::bf16, DType::f16}) {
      const PlanFacts facts = usual({isa, dtype}, 1).planned().facts();
      if (isa == Isa::amx) continue;
      EXPECT_EQ(std::string(facts.isa), name_of_isa(isa)) << name_of(dtype);
    }
  }
}

// onnxruntime#29613: block sizes from a cache of size 0, then a silent S × S buffer.
TEST(A9_ThreadsProcessesFeatures, A9_8_TilesArePositiveAndMemoryIsNeverQuadratic) {
  const MachineReport machine = machine_report();
  EXPECT_GT(machine.l1, 0);
  EXPECT_GT(machine.l2, 0);
  EXPECT_GT(machine.l3, 0);
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    std::size_t shorter = 0;
    for (Index length : {Index{1024}, Index{1} << 20}) {
      ConstTensor q;
      q.dtype = s.dtype, q.rank = 4;
      const Index shape[4] = {1, length, 8, 128}, stride[4] = {length * 1024, 1024, 128, 1};
      for (int i = 0; i < 4; ++i) q.shape[i] = shape[i], q.stride[i] = stride[i];
      Tensor out;
      out.dtype = q.dtype, out.rank = 4;
      for (int i = 0; i < 4; ++i) out.shape[i] = q.shape[i], out.stride[i] = q.stride[i];
      Plan plan;
      Options options;
      options.causal = true, options.isa = s.isa;
      const Status status = try_plan(q, q, q, out, options, plan);
      ASSERT_TRUE(status.ok()) << status.text;
      const PlanFacts facts = plan.facts();
      EXPECT_GT(facts.tile_queries, 0);
      EXPECT_GT(facts.block_keys, 0);
      EXPECT_GE(facts.chunk_keys, facts.block_keys);
      EXPECT_EQ(facts.workspace_bytes, workspace_bytes(plan, 1));
      if (length == 1024) shorter = facts.workspace_bytes;
      // 1024 times longer: at most 1024 times the memory and a few numbers for each row, never 1024².
      EXPECT_LE(facts.workspace_bytes, shorter * 1024 + 64 * static_cast<std::size_t>(length)) << length;
      EXPECT_LT(facts.workspace_bytes, std::size_t{1} << 32) << length;
    }
  }
}

// llama.cpp#28798, #28858, #28882: one function sizes the buffer and partitions it.
TEST(A9_ThreadsProcessesFeatures, A9_9_StatedWorkspaceIsEnoughAndLessIsRefused) {
  FT_FOR_EACH_SETTING(s) {
    Case c = usual(s, 1);
    ASSERT_TRUE(c.run().ok());
    const std::vector<double> want = c.out.values();
    const Plan plan = c.planned();
    const Tensors tensors = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired());
    for (int workers : {1, 3}) {
      for (const Placement placement : {Placement{Placement::Edge::end, 0}, Placement{Placement::Edge::begin, 0},
                                        Placement{Placement::Edge::begin, 1}}) {
        const std::size_t size = workspace_bytes(plan, workers);
        const GuardedBytes workspace(size, placement);
        c.out.poison();
        for (int worker = 0; worker < workers; ++worker)
          ASSERT_TRUE(run(plan, tensors, workspace.data(), size, worker, workers).ok());
        EXPECT_EQ(c.out.values(), want) << workers;
        EXPECT_TRUE(workspace.guards_intact());
        if (size == 0) continue;
        c.out.poison();
        const Status status = run(plan, tensors, workspace.data(), size - 1, 0, workers);
        EXPECT_EQ(status.code, Code::invalid_argument);
        EXPECT_TRUE(c.out.untouched());
      }
    }
  }
}

// pytorch#32596, #27971, #29893: memory grew with every new shape.
TEST(A9_ThreadsProcessesFeatures, A9_10_NewShapesDoNotGrowTheProcess) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers keep freed memory";
  if (resident_bytes() < 0) GTEST_SKIP() << "/proc/self/statm cannot be read here";
  Random random(97);
  long long warm = 0;
  for (int n = 0; n < 1200; ++n) {
    Case c({.queries = random.integer(1, 60), .keys = random.integer(1, 60), .q_heads = 2, .kv_heads = 2});
    c.outputs = Outputs::lse;
    c.fill_normal(98), c.options.threads = 2;
    ASSERT_TRUE(c.run().ok());
    if (n == 200) warm = resident_bytes();
  }
  EXPECT_LE(resident_bytes() - warm, 4 << 20);
}

}  // namespace
}  // namespace flashtile::testing
