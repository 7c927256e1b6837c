#include "bench/link_contention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "common/interrupt.hpp"
#include "ferry/device.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "train/train_run.hpp"

namespace ferry::command {

namespace {

constexpr int smallest_product = 256;
constexpr int largest_product = 2048;
constexpr std::size_t matrix_bytes = std::size_t{largest_product} * largest_product * sizeof(float);
constexpr std::size_t largest_timed = std::size_t{16} << 20;
constexpr std::size_t small_copy = 4096;
constexpr double worth_timing_us = 10'000;  // so long that no thread's waking up counts
constexpr int most_in_a_row = 256;

/// So many of what takes `us` as to be worth timing.
int in_a_row(double us) {
  return static_cast<int>(std::clamp(std::ceil(worth_timing_us / std::max(us, 1e-3)), 1.0, double{most_in_a_row}));
}

class contention_bench {
 public:
  contention_bench(config const& settings, std::size_t largest, int repeats)
      : repeats_(repeats),
        bytes_(std::min(largest, largest_timed)),
        device_(make(settings, bytes_)),
        ops_(nn::make_ops(*device_)),
        compute_(*device_, stream_kind::compute, "compute"),
        out_(*device_, copy_direction::device_to_host, bytes_),
        back_(*device_, copy_direction::host_to_device, bytes_),
        a_(*device_, memory_space::device, matrix_bytes),
        b_(*device_, memory_space::device, matrix_bytes),
        product_(*device_, memory_space::device, matrix_bytes),
        begin_(*device_, event_timing::on),
        end_(*device_, event_timing::on) {
    fill();
  }

  link_contention run(progress& shown);

 private:
  /// One direction of the link, and what keeps it busy.
  struct lane {
    lane(device& on, copy_direction which, std::size_t bytes)
        : direction(which),
          there(on, memory_space::device, bytes),
          here(on, memory_space::pinned, bytes),
          copies(on, stream_kind::copy, which == copy_direction::device_to_host ? "out" : "back"),
          under_way(on),
          over(on) {
      std::memset(here.data(), 1, bytes);
    }
    copy_direction direction;
    memory there;
    memory here;
    stream copies;
    event under_way;
    event over;
    double copy_us = 0;  ///< alone
  };

  static std::unique_ptr<device> make(config settings, std::size_t bytes);
  void fill();
  void copy(lane& way, std::size_t bytes);
  void multiply();
  [[nodiscard]] double memory_gbps();
  template <typename Enqueue>
  double once_us(stream_ref on, Enqueue const& enqueue);
  void occupy(lane& way, double us);
  template <typename Enqueue>
  contended_time compare(stream_ref on, Enqueue const& enqueue, std::vector<lane*> const& beside);
  contended_time compare_copies(lane& way, lane& beside, link_contention& into);
  [[nodiscard]] link_speed speed_of(lane& way, contended_time const& timed);

  int repeats_;
  std::size_t bytes_;
  std::unique_ptr<device> device_;
  std::unique_ptr<nn::ops> ops_;
  stream compute_;
  lane out_;
  lane back_;
  memory a_;
  memory b_;
  memory product_;
  event begin_;
  event end_;
  int width_ = smallest_product;
};

std::unique_ptr<device> contention_bench::make(config settings, std::size_t bytes) {
  constexpr std::size_t slack = std::size_t{8} << 20;
  settings.device_bytes = 2 * bytes + 3 * matrix_bytes + nn::cuda_ops_bytes + slack;
  settings.pinned_bytes = 2 * bytes + slack;
  return make_device(settings);
}

/// With small numbers that are not zero: what multiplies zeros may need less power and run faster.
void contention_bench::fill() {
  constexpr int small_number = 0x3c;  // in each byte, 0.0115
  std::memset(back_.here.data(), small_number, bytes_);
  for (auto* const to : {&a_, &b_}) {
    for (std::size_t at = 0; at < matrix_bytes; at += bytes_) {
      device_->copy(back_.copies, "fill", copy_direction::host_to_device, to->as<std::byte>() + at, back_.here.data(),
                    std::min(bytes_, matrix_bytes - at));
    }
  }
  for (auto* const way : {&out_, &back_}) {
    device_->copy(back_.copies, "fill", copy_direction::host_to_device, way->there.data(), back_.here.data(), bytes_);
  }
  back_.copies.synchronize();
}

void contention_bench::copy(lane& way, std::size_t bytes) {
  bool const out = way.direction == copy_direction::device_to_host;
  device_->copy(way.copies, out ? "out" : "back", way.direction, out ? way.here.data() : way.there.data(),
                out ? way.there.data() : way.here.data(), bytes);
}

void contention_bench::multiply() {
  ops_->gemm(compute_, "product",
             {.m = width_,
              .n = width_,
              .k = width_,
              .a = {a_.as<float>()},
              .b = {b_.as<float>()},
              .out = product_.as<float>()});
}

double contention_bench::memory_gbps() {
  std::vector<double> took;
  for (int i = 0; i < repeats_; ++i) {
    took.push_back(once_us(compute_, [&] {
      ops_->layernorm_forward(compute_, product_.as<float>(), a_.as<float>(), b_.as<float>(), b_.as<float>(),
                              largest_product, largest_product);
    }));
  }
  return 1e-3 * 2 * static_cast<double>(matrix_bytes) / std::max(median(std::move(took)), 1e-3);
}

/// By the stream's own marks.
template <typename Enqueue>
double contention_bench::once_us(stream_ref on, Enqueue const& enqueue) {
  begin_.record(on);
  enqueue();
  end_.record(on);
  end_.synchronize();
  return device_->elapsed_us(begin_, end_);
}

/// Returns when the first copy is over, with copies for so long still to come.
void contention_bench::occupy(lane& way, double us) {
  constexpr double most_copies = 4096;
  auto const copies = static_cast<int>(std::min(std::ceil(us / std::max(way.copy_us, 1e-3)) + 1, most_copies));
  copy(way, bytes_);
  way.under_way.record(way.copies);
  for (int i = 0; i < copies; ++i) copy(way, bytes_);
  way.over.record(way.copies);
  way.under_way.synchronize();
}

template <typename Enqueue>
contended_time contention_bench::compare(stream_ref on, Enqueue const& enqueue, std::vector<lane*> const& beside) {
  double longer = 2;  // than alone: what is enqueued beside it must not end first
  constexpr double longest = 32;
  std::vector<double> alone;
  std::vector<double> together;
  for (int round = 0; round < repeats_ && !interrupted(); ++round) {
    double const alone_us = once_us(on, enqueue);
    double beside_us = 0;
    for (bool lasted = false; !lasted;) {
      for (auto* const way : beside) occupy(*way, longer * alone_us);
      beside_us = once_us(on, enqueue);
      lasted = std::ranges::none_of(beside, [](lane const* way) { return way->over.complete(); }) || longer >= longest;
      if (!lasted) longer *= 2;
      for (auto* const way : beside) way->copies.synchronize();
    }
    alone.push_back(alone_us);
    together.push_back(beside_us);
  }
  if (alone.empty()) return {};
  return {median(std::move(alone)), median(std::move(together))};
}

contended_time contention_bench::compare_copies(lane& way, lane& beside, link_contention& into) {
  int const copies = in_a_row(way.copy_us);
  auto timed = compare(way.copies,
                       [&] {
                         for (int i = 0; i < copies; ++i) copy(way, bytes_);
                       },
                       {&beside});
  timed.alone_us /= copies;
  timed.beside_us /= copies;
  (&way == &out_ ? into.out_alone : into.back_alone) = speed_of(way, timed);
  return timed;
}

/// Alone, with the latency of a copy that meets an idle link.
link_speed contention_bench::speed_of(lane& way, contended_time const& timed) {
  if (timed.alone_us <= 0) return {};
  double const bytes_per_us = static_cast<double>(bytes_) / timed.alone_us;
  std::vector<double> took;
  for (int i = 0; i < repeats_; ++i) took.push_back(once_us(way.copies, [&] { copy(way, small_copy); }));
  return {1e-3 * bytes_per_us, std::max(0.0, median(std::move(took)) - small_copy / bytes_per_us)};
}

link_contention contention_bench::run(progress& shown) {
  link_contention all{.copied_bytes = bytes_};
  for (auto* const way : {&out_, &back_}) {
    for (int i = 0; i < 2; ++i) way->copy_us = once_us(way->copies, [&] { copy(*way, bytes_); });
  }
  shown.show("copies beside copies");
  all.out = compare_copies(out_, back_, all);
  all.back = compare_copies(back_, out_, all);

  constexpr double large_us = 2000;
  double product_us = 0;
  for (int i = 0; i < 2; ++i) product_us = once_us(compute_, [&] { multiply(); });
  while (product_us < large_us && width_ < largest_product) {
    width_ *= 2;
    product_us = once_us(compute_, [&] { multiply(); });
  }
  all.product_width = width_;
  all.products = in_a_row(product_us);
  auto const products = [&] {
    for (int i = 0; i < all.products; ++i) multiply();
  };
  all.memory_gbps = memory_gbps();
  shown.show("computation beside copies");
  all.compute_beside_out = compare(compute_, products, {&out_});
  all.compute_beside_back = compare(compute_, products, {&back_});
  all.compute_beside_both = compare(compute_, products, {&out_, &back_});
  return all;
}

}  // namespace

double contended_time::share() const noexcept {
  if (alone_us <= 0 || beside_us <= 0) return 1;
  return std::clamp(std::round(100 * alone_us / beside_us) / 100, contention::least, 1.0);
}

contention link_contention::shares() const noexcept {
  return {.out_beside_back = out.share(),
          .back_beside_out = back.share(),
          .compute_beside_out = compute_beside_out.share(),
          .compute_beside_back = compute_beside_back.share(),
          .compute_beside_both = compute_beside_both.share()};
}

double link_contention::gbps(double us) const noexcept {
  return us > 0 ? 1e-3 * static_cast<double>(copied_bytes) / us : 0;
}

double link_contention::tflops() const noexcept {
  if (compute_beside_out.alone_us <= 0) return 0;
  double const flops = 2.0 * products * product_width * product_width * product_width;
  return 1e-6 * flops / compute_beside_out.alone_us;
}

link_contention measure_contention(config const& settings, std::size_t largest, int repeats, progress& shown) {
  auto const usual = make_device(settings)->capabilities();
  auto all = contention_bench(settings, largest, repeats).run(shown);
  all.device_bytes = usual.device_bytes;
  all.pinned_bytes = usual.pinned_bytes;
  return all;
}

}  // namespace ferry::command
