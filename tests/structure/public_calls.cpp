// Which calls of the public header exist with exceptions and which without, and that no other call throws. Compiled
// with and without -fno-exceptions by structure_test.py, never run.
#include <type_traits>
#include <utility>

#include "flashtile/flashtile.h"

namespace flashtile {
class Error;
}

namespace {

using flashtile::ConstTensor, flashtile::Options, flashtile::Plan, flashtile::Tensor, flashtile::Tensors;

#if defined(__cpp_exceptions)
constexpr bool kExceptions = true;
#else
constexpr bool kExceptions = false;
#endif

// Found through their arguments, or not there.
template <class T>
concept Attends = requires(const T& q, const Tensor& out) { attention(q, q, q, out); };
template <class T>
concept Plans = requires(const T& q, const Tensor& out) { plan(q, q, q, out); };
template <class P>
concept Explains = requires(const P& made) { explain(made); };
template <class P>
concept Describes = requires(const P& made) { problem_line(made); };
template <class E>
concept Complete = requires { sizeof(E); };

static_assert(Attends<ConstTensor> == kExceptions);
static_assert(Plans<ConstTensor> == kExceptions);
static_assert(Explains<Plan> == kExceptions);
static_assert(Describes<Plan> == kExceptions);
static_assert(Complete<flashtile::Error> == kExceptions);

// Never defined: they stand in unevaluated expressions only.
extern const ConstTensor q;
extern const Tensor out;
extern const Options options;
extern const Tensors tensors;
extern const flashtile::Status status;
extern Plan made;
extern flashtile::Isa isa;

static_assert(noexcept(flashtile::try_attention(q, q, q, out, options)));
static_assert(noexcept(flashtile::try_plan(q, q, q, out, options, made)));
static_assert(noexcept(flashtile::tensors_of(q, q, q, out, options)));
static_assert(noexcept(flashtile::run(made, tensors, nullptr, 0, 0, 1)));
static_assert(noexcept(flashtile::workspace_bytes(made, 1)));
static_assert(noexcept(flashtile::explain(made, nullptr, 0)));
static_assert(noexcept(flashtile::problem_line(made, nullptr, 0)));
static_assert(noexcept(flashtile::version()));
static_assert(noexcept(flashtile::commit()));
static_assert(noexcept(flashtile::isa_reports(nullptr, 0)));
static_assert(noexcept(flashtile::machine_report()));
static_assert(noexcept(flashtile::parse_isa(nullptr, isa)));
static_assert(noexcept(made.facts()) && noexcept(made.valid()) && noexcept(made.data()));
static_assert(noexcept(made = std::move(made)));
static_assert(std::is_nothrow_default_constructible_v<Plan> && std::is_nothrow_move_constructible_v<Plan>);
static_assert(std::is_nothrow_destructible_v<Plan> && !std::is_copy_constructible_v<Plan>);
static_assert(noexcept(status.ok()));

}  // namespace
