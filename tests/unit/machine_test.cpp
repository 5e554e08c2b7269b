// The machine is read correctly from made-up trees of /proc and /sys, and this machine is read at
// all.
#include "run/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "run/cgroup.h"

namespace flashtile {
namespace {

namespace fs = std::filesystem;

/// A file tree that stands for the root of a system.
class Tree {
 public:
  Tree() {
    std::string name = testing::TempDir() + "flashtile_machine_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~Tree() { fs::remove_all(root_); }
  Tree& file(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  Tree& cache(int index, int level, const std::string& type, const std::string& size) {
    const std::string at = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    file(at + "/level", std::to_string(level) + "\n").file(at + "/type", type + "\n");
    return file(at + "/size", size + "\n");
  }
  const char* root() const { return root_.c_str(); }

 private:
  std::string root_;
};

const char* const kV2Mount = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const char* const kV1Mount =
    "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

TEST(Machine, CachesAreReadFromSysfsAndInstructionCachesAreNot) {
  Tree t;
  t.cache(0, 1, "Data", "48K").cache(1, 1, "Instruction", "64K").cache(2, 2, "Unified", "2048K");
  t.cache(3, 3, "Unified", "260M");
  const CacheSizes c = sysfs_caches(t.root());
  EXPECT_EQ(c.l1, 48 << 10);
  EXPECT_EQ(c.l2, 2048 << 10);
  EXPECT_EQ(c.l3, 260 << 20);
}

TEST(Machine, MissingOrSenselessCacheFilesSayNothing) {
  Tree t;
  EXPECT_EQ(sysfs_caches(t.root()).l1, 0);
  t.cache(0, 1, "Data", "many").cache(1, 2, "Unified", "-1K").cache(2, 3, "Unified", "9223372036854775807G");
  const CacheSizes c = sysfs_caches(t.root());
  EXPECT_EQ(c.l1, 0);
  EXPECT_EQ(c.l2, 0);
  EXPECT_EQ(c.l3, 0);
}

TEST(BugCases, A9_8_CacheSizesOfZeroFallBackToUsableOnes) {
  const Machine none = assemble({0, 0, 0}, 4, 0);
  EXPECT_EQ(none.l1, 32 << 10);
  EXPECT_EQ(none.l2, 512 << 10);
  EXPECT_EQ(none.l3, 4 << 20);
  const Machine absurd = assemble({1, -5, 3}, 4, 0);
  EXPECT_EQ(absurd.l1, 32 << 10);
  EXPECT_EQ(absurd.l2, 512 << 10);
  EXPECT_EQ(absurd.l3, 4 << 20);
  const Machine arm = assemble({64 << 10, 0, 32 << 20}, 4, 0);
  EXPECT_EQ(arm.l1, 64 << 10);
  EXPECT_EQ(arm.l2, 512 << 10);
  EXPECT_EQ(arm.l3, 32 << 20);
}

TEST(BugCases, A9_2_ThreadsAreTheLeastOfAffinityAndQuotaRoundedDown) {
  EXPECT_EQ(assemble({}, 8, 0).threads, 8);
  EXPECT_EQ(assemble({}, 8, 4).threads, 4);
  EXPECT_EQ(assemble({}, 8, 3.99).threads, 3);
  EXPECT_EQ(assemble({}, 8, 0.5).threads, 1);
  EXPECT_EQ(assemble({}, 2, 64).threads, 2);
  EXPECT_EQ(assemble({}, 2, 1e300).threads, 2);
  EXPECT_EQ(assemble({}, 0, 0).threads, 1);
}

TEST(Cgroup, NoFilesMeanNoLimit) {
  Tree t;
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file("/proc/self/cgroup", "0::/a\n").file("/proc/self/mountinfo", kV2Mount);
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_quota(t.root()), 0);
}

TEST(Cgroup, Version2TakesTheLeastGrantOfTheWholeHierarchy) {
  Tree t;
  t.file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/kube/pod/app\n");
  t.file("/sys/fs/cgroup/kube/pod/app/cpu.max", "max 100000\n");
  t.file("/sys/fs/cgroup/kube/pod/cpu.max", "250000 100000\n");
  t.file("/sys/fs/cgroup/kube/cpu.max", "800000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 2.5);
  t.file("/sys/fs/cgroup/kube/pod/app/cpu.max", "30000 20000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 1.5);
  t.file("/sys/fs/cgroup/kube/cpu.max", "100000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 1.0);
  t.file("/sys/fs/cgroup/kube/podother/cpu.max", "1000 100000\n");  // a sibling's
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 1.0);
}

TEST(Cgroup, Version2InsideANamespaceReadsTheTopOfTheMount) {
  Tree t;
  t.file("/proc/self/mountinfo", kV2Mount).file("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  t.file("/proc/self/cgroup", "0::/\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 4);
  t.file("/proc/self/cgroup", "0::/../other\n");  // moved out of its namespace
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 4);
}

TEST(Cgroup, Version1ReadsTheCpuControllersMount) {
  Tree t;
  t.file("/proc/self/mountinfo", kV1Mount);
  t.file("/proc/self/cgroup", "11:cpuset:/set\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
  const std::string at = "/sys/fs/cgroup/cpu,cpuacct/docker";
  t.file(at + "/abc/cpu.cfs_quota_us", "-1\n").file(at + "/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file(at + "/cpu.cfs_quota_us", "150000\n").file(at + "/cpu.cfs_period_us", "50000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 3);
  t.file(at + "/abc/cpu.cfs_quota_us", "200000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 2);
}

TEST(Cgroup, MountsThatShowOnlyPartOfTheHierarchyAreUnderstood) {
  Tree t;  // as in a container with the host's control group namespace; the mount point has a space
           // in it
  t.file("/proc/self/mountinfo", "31 23 0:28 /docker/abc /odd\\040place rw - cgroup2 none rw\n");
  t.file("/proc/self/cgroup", "0::/docker/abc/inner\n");
  t.file("/odd place/cpu.max", "600000 100000\n").file("/odd place/inner/cpu.max", "500000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 5);
}

TEST(Cgroup, BothVersionsSideBySideCount) {
  Tree t;
  t.file("/proc/self/mountinfo", std::string(kV1Mount) + "40 23 0:33 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n");
  t.file("/proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/b\n");
  t.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "700000\n");
  t.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 7);
  t.file("/sys/fs/cgroup/unified/b/cpu.max", "600000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 6);
}

TEST(Cgroup, WithoutMountinfoTheUsualPlacesAreTried) {
  Tree t;
  t.file("/proc/self/cgroup", "4:cpu:/a\n0::/b\n").file("/sys/fs/cgroup/b/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 3);
  t.file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  t.file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 2);
}

TEST(Cgroup, SenselessTextMeansNoLimitAndLongLinesDoNoHarm) {
  Tree t;
  const std::string junk = "20 1 0:1 / /" + std::string(20000, 'x') + " - cgroup2 none rw\nrubbish\n- \n - cgroup2\n\n";
  t.file("/proc/self/mountinfo", junk + kV2Mount).file("/proc/self/cgroup", "no colon\n::\n0::/a");
  t.file("/sys/fs/cgroup/a/cpu.max", "0 0\n");
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file("/sys/fs/cgroup/a/cpu.max", "-5 100000\n");
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file("/sys/fs/cgroup/a/cpu.max", "");
  EXPECT_EQ(cgroup_quota(t.root()), 0);
  t.file("/sys/fs/cgroup/a/cpu.max", "200000 100000");
  EXPECT_DOUBLE_EQ(cgroup_quota(t.root()), 2);
}

std::string name_of(const std::string& cpuinfo, std::size_t size = 64) {
  Tree t;
  t.file("/proc/cpuinfo", cpuinfo);
  char name[64];
  cpu_name(t.root(), name, size);
  return name;
}

TEST(Machine, ProcessorsHaveNames) {
  EXPECT_EQ(name_of("processor\t: 0\nmodel\t\t: 1\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fpu\n"), "A CPU @ 2 GHz");
  EXPECT_EQ(name_of("model name\t: Some CPU\n", 5), "Some");
  EXPECT_EQ(name_of("CPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"), "Arm Neoverse N1");
  EXPECT_EQ(name_of("CPU implementer\t: 0x99\nCPU part\t: 0x123\n"), "Arm implementer 0x99 part 0x123");
  EXPECT_EQ(name_of("processor : 0\nmodel name :\n"), "unknown");
  EXPECT_EQ(name_of(""), "unknown");
}

TEST(Machine, ThisMachineIsKnown) {
  const Machine& m = this_machine();
  EXPECT_EQ(&m, &this_machine());
  EXPECT_GE(m.threads, 1);
  EXPECT_LE(m.threads, m.affinity);
  EXPECT_GE(m.l1, 4 << 10);
  EXPECT_GE(m.l2, 32 << 10);
  EXPECT_GE(m.l3, 256 << 10);
  EXPECT_NE(m.cpu[0], '\0');
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(m.affinity, CPU_COUNT(&set));
}

TEST(BugCases, A9_3_AffinityIsObeyedAsItIsNow) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  this_machine();
  const pid_t child = fork();
  if (child == 0) {
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) _exit(2);
    Affinity affinity;
    read_affinity(affinity);
    _exit(available_threads() == 1 && affinity.count() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(available_threads(), this_machine().threads);
}

}  // namespace
}  // namespace flashtile
