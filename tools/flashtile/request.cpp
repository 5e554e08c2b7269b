#include "request.h"

#include "failure.h"
#include "parse.h"

namespace flashtile::cli {

Options options_of(const RunRequest& request) {
  Options o;
  o.causal = request.causal;
  o.alignment = parse_alignment("--alignment", request.alignment);
  if (!request.window.empty()) o.window = parse_window("--window", request.window);
  if (!request.scale.empty()) o.scale = parse_number("--scale", request.scale);
  if (!request.softcap.empty()) {
    constexpr std::string_view kAllowed = "a finite number of at least 0 (0 is off)";
    o.softcap = parse_number("--softcap", request.softcap, kAllowed);
    if (o.softcap < 0) throw wrong("--softcap", request.softcap, kAllowed);
  }
  o.isa = parse_isa_option("--isa", request.isa);
  o.arithmetic = parse_arithmetic("--arithmetic", request.arithmetic);
  if (!request.threads.empty()) o.threads = static_cast<int>(parse_integer("--threads", request.threads, 1, 4096));
  return o;
}

}  // namespace flashtile::cli
