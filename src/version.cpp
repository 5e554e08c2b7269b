// Which flashtile this is. The build system says the commit and the version of project(); the header must agree.
#include "flashtile/flashtile.h"

namespace flashtile {
namespace {

constexpr char kVersion[] = FLASHTILE_PROJECT_VERSION;
constexpr int kParts[] = {FLASHTILE_VERSION_MAJOR, FLASHTILE_VERSION_MINOR, FLASHTILE_VERSION_PATCH};

/// Whether kVersion is the header's three numbers with dots between them.
constexpr bool header_agrees() {
  const char* at = kVersion;
  for (int part : kParts) {
    int number = 0;
    for (; *at >= '0' && *at <= '9'; ++at) number = 10 * number + (*at - '0');
    if (number != part) return false;
    if (*at == '.') ++at;
  }
  return *at == '\0';
}
static_assert(header_agrees(), "FLASHTILE_VERSION_* in flashtile.h and project(VERSION) in CMakeLists.txt differ");

}  // namespace

const char* version() noexcept { return kVersion; }
const char* commit() noexcept { return FLASHTILE_COMMIT; }

}  // namespace flashtile
