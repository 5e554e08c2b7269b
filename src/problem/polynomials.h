// The coefficients behind exp2, ln and tanh. No kernel calls the C library: these functions give the same bits on every
// instruction set. Interpolation at Chebyshev nodes in 60 digits, then rounded; errors are relative, before rounding.
#pragma once

namespace flashtile {
namespace {  // constants of each object: nothing for the linker to share between instruction sets

template <class T>
struct Polynomials;

template <>
struct Polynomials<float> {
  // 2^f = 1 + f·P(f) on |f| ≤ ½, error 5.1e-9. P(f) lowest power first.
  static constexpr float exp2[] = {0x1.62e430p-1f, 0x1.ebfbe0p-3f,  0x1.c6af6cp-5f,
                                   0x1.3b2a54p-7f, 0x1.5f0890p-10f, 0x1.44138ap-13f};
  // ln g = 2s + s³·P(s²), s = (g − 1)/(g + 1), √½ ≤ g ≤ √2, error 2.7e-9.
  static constexpr float log[] = {0x1.55555cp-1f, 0x1.997c30p-2f, 0x1.2ee610p-2f};
  // tanh x = x + x³·P(x²) on |x| ≤ kTanhSmall, error 1.7e-8; beyond it 1 − 2/(e^2x + 1) loses no digit.
  static constexpr float tanh[] = {-0x1.555552p-2f, 0x1.110e1cp-3f, -0x1.b9258ap-5f, 0x1.58048ep-6f, -0x1.8f8de4p-8f};
  static constexpr float kTanhSmall = 0.625f;
  static constexpr float kLn2High = 0x1.62e430p-1f, kLn2Low = -0x1.05c610p-29f;
  static constexpr float kLog2E = 0x1.715476p+0f;
};

template <>
struct Polynomials<double> {
  static constexpr double exp2[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a0c2p-5,
                                    0x1.3b2ab6fba1ddap-7,  0x1.5d87fe78a5276p-10, 0x1.430913096fd9fp-13,
                                    0x1.ffcbfc670dcd4p-17, 0x1.62bfd47773353p-20, 0x1.b524fae627834p-24,
                                    0x1.e6063f7217bc6p-28, 0x1.e9d3fe3952179p-32};  // 8.5e-18
  static constexpr double log[] = {0x1.5555555555558p-1, 0x1.99999999952e2p-2, 0x1.2492492df148dp-2, 0x1.c71c62e5800a1p-3,
                                   0x1.7462b4ab2ef6bp-3, 0x1.39fe606542ddep-3, 0x1.2b584aae78a57p-3};  // 4.5e-18
  static constexpr double tanh[] = {-0x1.5555555555555p-2,  0x1.11111111110a0p-3,  -0x1.ba1ba1b9f660bp-5,
                                    0x1.664f485d6d4d4p-6,   -0x1.226e22fa6f453p-7, 0x1.d6c9f446c47cbp-9,
                                    -0x1.7c2ad98792f89p-10, 0x1.17cd5b9306c04p-11};  // 9.6e-20
  static constexpr double kTanhSmall = 0.25;
  static constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
};

}  // namespace
}  // namespace flashtile
