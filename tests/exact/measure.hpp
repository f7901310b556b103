#pragma once
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include "stickybit/exact/double_double.hpp"

// What the tests of this stage measure with: Boost.Multiprecision, which shares no code with the library.

namespace stickybit_test {

namespace mp = boost::multiprecision;

/// 640 bits: any sum of up to 2^100 products of two BF16 numbers (2^-266 … 2^356) is exact in it.
using big = mp::number<mp::cpp_bin_float<640, mp::digit_base_2, void, std::int32_t>, mp::et_off>;

inline big value_of(stickybit::double_double x) { return big(x.hi) + big(x.lo); }
inline big pow2_big(int e) { return mp::ldexp(big(1), e); }

/// The largest ratio error / scale seen, and where.
class worst {
 public:
  /// Errors at scale 0 must be 0; they are counted as infinite otherwise.
  void see(big const& error, big const& scale, std::string const& where = {}) {
    ++count_;
    const big ratio = error == 0 ? big(0) : scale == 0 ? std::numeric_limits<big>::infinity() : big(mp::abs(error) / mp::abs(scale));
    if (!(ratio <= ratio_)) {
      ratio_ = ratio;
      where_ = where;
    }
  }
  [[nodiscard]] big const& ratio() const { return ratio_; }
  [[nodiscard]] std::string text(std::string const& name) const {
    std::ostringstream out;
    out << name << ": worst error ";
    if (ratio_ == 0) out << "0";
    else out << "2^" << double(mp::log2(ratio_));
    out << " over " << count_ << " values";
    if (!where_.empty()) out << ", at " << where_;
    return out.str();
  }

 private:
  big ratio_ = 0;
  long count_ = 0;
  std::string where_;
};

/// A normalised number: exponent in [lowest, highest], random signs and significands, lo up to half an ulp of hi or far below it.
inline stickybit::double_double random_double_double(std::mt19937_64& random, int lowest, int highest) {
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  double hi = std::ldexp(double((random() >> 11) | (std::uint64_t{1} << 52)), pick(lowest, highest) - 52);
  switch (pick(0, 7)) {
    case 0: hi = std::ldexp(1.0, std::ilogb(hi)); break;                             // a power of two
    case 1: hi = std::nextafter(std::ldexp(1.0, std::ilogb(hi) + 1), 0.0); break;    // just below one
    default: break;
  }
  double lo = std::ldexp(double((random() >> 11) | (std::uint64_t{1} << 52)), std::ilogb(hi) - 52 - 54 - (pick(0, 3) == 0 ? pick(0, 60) : 0));
  if (pick(0, 15) == 0) lo = 0;
  if (random() & 1) lo = -lo;
  if (hi + lo != hi) lo /= 4;  // hi is a power of two: its lower neighbour is nearer
  if (random() & 1) return {-hi, -lo};
  return {hi, lo};
}

}  // namespace stickybit_test
