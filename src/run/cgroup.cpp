#include "run/cgroup.h"

#include "run/text_file.h"

namespace flashtile {
namespace {

/// Does a list of words separated by commas contain this one?
bool contains(const char* list, const char* word) noexcept {
  const std::size_t length = std::strlen(word);
  for (const char* at = list; at != nullptr; at = std::strchr(at, ',')) {
    if (*at == ',') ++at;
    if (std::strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

/// The groups that this process belongs to: the unified hierarchy's and that of version 1's cpu
/// controller.
struct Membership {
  char v2[4096] = "", v1[4096] = "";  // "/user.slice/a"; empty when not a member
};

void read_membership(const char* root, Membership& member) noexcept {
  Lines lines(root, "/proc/self/cgroup");
  while (char* line = lines.next()) {  // "0::/path" and "4:cpu,cpuacct:/path"
    char* controllers = std::strchr(line, ':');
    char* path = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
    if (path == nullptr) continue;
    *path++ = '\0';
    ++controllers;
    if (*controllers == '\0') std::snprintf(member.v2, sizeof(member.v2), "%.4095s", path);
    if (contains(controllers, "cpu")) std::snprintf(member.v1, sizeof(member.v1), "%.4095s", path);
  }
}

/// What the group of this directory itself grants; 0: no limit.
double quota_of(const char* root, const char* directory, bool v2) noexcept {
  double quota = -1, period = 0;
  if (v2) {
    char path[kPath];
    if (std::snprintf(path, sizeof(path), "%s/cpu.max", directory) >= static_cast<int>(sizeof(path))) return 0;
    Lines lines(root, path);
    long long allowed = 0, per = 0;
    const char* line = lines.next();  // "max 100000" or "150000 100000"
    if (line != nullptr && std::sscanf(line, "%lld %lld", &allowed, &per) == 2)
      quota = static_cast<double>(allowed), period = static_cast<double>(per);
  } else {
    quota = static_cast<double>(number_in(root, directory, "cpu.cfs_quota_us"));  // "-1": no limit
    period = static_cast<double>(number_in(root, directory, "cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

/// The least grant on the way from a group up to the mount point; a parent's limit binds its
/// children.
double least_quota(const char* root, const char* mount_point, const char* group, bool v2) noexcept {
  char directory[kPath];
  const int length = std::snprintf(directory, sizeof(directory), "%s%s", mount_point, group);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof(directory)) return 0;
  double least = 0;
  const std::size_t top = std::strlen(mount_point);
  for (;;) {
    const double quota = quota_of(root, directory, v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (std::strlen(directory) <= top) return least;
    *std::strrchr(directory + top, '/') = '\0';
  }
}

/// The group as seen below a mount that shows the hierarchy from `mount_root` on. A group outside
/// it (a process moved out of its namespace) is not to be seen: the top of the mount is the nearest
/// that is.
const char* below(const char* group, const char* mount_root) noexcept {
  const std::size_t length = std::strcmp(mount_root, "/") == 0 ? 0 : std::strlen(mount_root);
  if (std::strncmp(group, mount_root, length) != 0) return "";
  group += length;
  if (*group != '/' || group[1] == '\0' || std::strncmp(group, "/..", 3) == 0) return "";
  return group;
}

/// Replaces mountinfo's \040 and its like by the characters they stand for.
void unescape(char* text) noexcept {
  char* to = text;
  for (const char* from = text; *from != '\0'; ++to) {
    const bool octal = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                       from[3] >= '0' && from[3] <= '7';
    *to = octal ? static_cast<char>((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
    from += octal ? 4 : 1;
  }
  *to = '\0';
}

struct Mount {
  char *root = nullptr, *point = nullptr;
  bool v2 = false;
};

/// "31 23 0:28 ROOT POINT rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct". False unless it
/// controls CPU time.
bool parse_mount(char* line, Mount& mount) noexcept {
  char* rest = std::strstr(line, " - ");
  if (rest == nullptr) return false;
  *rest = '\0';
  rest += 3;
  char* save = nullptr;
  const char* type = strtok_r(rest, " ", &save);
  strtok_r(nullptr, " ", &save);  // the source
  const char* options = strtok_r(nullptr, " ", &save);
  if (type == nullptr) return false;
  mount.v2 = std::strcmp(type, "cgroup2") == 0;
  if (!mount.v2 && (std::strcmp(type, "cgroup") != 0 || !contains(options, "cpu"))) return false;

  save = nullptr;
  strtok_r(line, " ", &save);
  for (int i = 0; i < 2; ++i) strtok_r(nullptr, " ", &save);
  mount.root = strtok_r(nullptr, " ", &save);
  mount.point = strtok_r(nullptr, " ", &save);
  if (mount.root == nullptr || mount.point == nullptr) return false;
  unescape(mount.root);
  unescape(mount.point);
  return true;
}

}  // namespace

double cgroup_quota(const char* root) noexcept {
  Membership member;
  read_membership(root, member);
  double least = 0;
  bool mounted = false;
  const auto consider = [&](const char* point, const char* mount_root, bool v2) {
    const char* group = v2 ? member.v2 : member.v1;
    if (*group == '\0') return;
    const double quota = least_quota(root, point, below(group, mount_root), v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  };
  Lines lines(root, "/proc/self/mountinfo");
  while (char* line = lines.next()) {
    Mount mount;
    if (!parse_mount(line, mount)) continue;
    mounted = true;
    consider(mount.point, mount.root, mount.v2);
  }
  if (mounted) return least;
  consider("/sys/fs/cgroup", "/", true);  // where systemd and the container run times put them
  consider("/sys/fs/cgroup/cpu", "/", false);
  return least;
}

}  // namespace flashtile
