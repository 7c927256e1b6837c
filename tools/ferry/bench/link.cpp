#include "bench/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "common/interrupt.hpp"
#include "ferry/error.hpp"
#include "train/train_run.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t smallest_copy = 4096;
constexpr std::size_t batch_bytes = std::size_t{8} << 20;  // small copies are timed many at a time
constexpr std::size_t most_in_batch = 64;

double gbps(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us * 1e-3 : 0; }

std::string first_line(std::filesystem::path const& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<pcie_rate> lanes_of(config const& settings) {
  auto const present = find_cuda();
  auto const ordinal = static_cast<std::size_t>(cuda_options(settings).ordinal);
  if (ordinal >= present.devices.size()) return std::nullopt;
  std::string id = present.devices[ordinal].pci_bus_id;
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  auto const folder = std::filesystem::path("/sys/bus/pci/devices") / id;
  return pcie_rate_of(first_line(folder / "max_link_speed"), first_line(folder / "max_link_width"));
}

class link_bench {
 public:
  link_bench(link_options const& how, progress& shown)
      : how_(how),
        shown_(shown),
        device_(make(how)),
        out_(*device_, stream_kind::copy, "out"),
        in_(*device_, stream_kind::copy, "in"),
        source_(*device_, memory_space::device, how.largest),
        target_(*device_, memory_space::device, how.largest),
        pinned_out_(*device_, memory_space::pinned, how.largest),
        pinned_in_(*device_, memory_space::pinned, how.largest),
        pageable_(how.largest),
        other_(how.largest) {}

  link_result run();

 private:
  static std::unique_ptr<device> make(link_options const& how);
  void touch();
  [[nodiscard]] link_row measure(std::size_t bytes);
  [[nodiscard]] chunk_row measure_chunk(std::size_t bytes, std::size_t chunk);
  void copy_out(void* to, std::size_t bytes, std::size_t times);
  void copy_in(void const* from, std::size_t bytes, std::size_t times);
  template <typename Enqueue>
  [[nodiscard]] double timed_us(stream_ref on, Enqueue const& enqueue);
  void measure_both(link_row& row, std::size_t times);
  [[nodiscard]] double memcpy_us(std::size_t bytes, std::size_t times);

  link_options const& how_;
  progress& shown_;
  std::unique_ptr<device> device_;
  stream out_;
  stream in_;
  memory source_;
  memory target_;
  memory pinned_out_;
  memory pinned_in_;
  std::vector<std::byte> pageable_;
  std::vector<std::byte> other_;
  std::optional<pcie_rate> lanes_;
};

std::unique_ptr<device> link_bench::make(link_options const& how) {
  auto settings = how.settings;
  if (settings.device == "sim") {
    throw setting_error("FERRY_DEVICE=sim: its link is what FERRY_LINK_GBPS says; give host or cuda");
  }
  constexpr std::size_t slack = std::size_t{1} << 20;
  settings.device_bytes = settings.pinned_bytes = 2 * (how.largest + slack);
  return make_device(settings);
}

/// Pages are there before anything is timed.
void link_bench::touch() {
  std::memset(pinned_out_.data(), 1, how_.largest);
  std::memset(pinned_in_.data(), 1, how_.largest);
  std::memset(other_.data(), 1, how_.largest);
  for (auto const* from : {&pinned_out_, &pinned_in_}) {
    void* const to = from == &pinned_out_ ? source_.data() : target_.data();
    device_->copy(in_, "touch", copy_direction::host_to_device, to, from->data(), how_.largest);
  }
  in_.synchronize();
}

void link_bench::copy_out(void* to, std::size_t bytes, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    device_->copy(out_, "out", copy_direction::device_to_host, to, source_.data(), bytes);
  }
}

void link_bench::copy_in(void const* from, std::size_t bytes, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    device_->copy(in_, "in", copy_direction::host_to_device, target_.data(), from, bytes);
  }
}

/// By the stream's own marks, so that no thread's waking up counts.
template <typename Enqueue>
double link_bench::timed_us(stream_ref on, Enqueue const& enqueue) {
  event const from(*device_, event_timing::on);
  event const to(*device_, event_timing::on);
  std::vector<double> took;
  for (int i = 0; i < how_.repeats; ++i) {
    from.record(on);
    enqueue();
    to.record(on);
    to.synchronize();
    took.push_back(device_->elapsed_us(from, to));
  }
  return median(std::move(took));
}

void link_bench::measure_both(link_row& row, std::size_t times) {
  event const out_begin(*device_, event_timing::on);
  event const out_end(*device_, event_timing::on);
  event const in_begin(*device_, event_timing::on);
  event const in_end(*device_, event_timing::on);
  std::size_t const all = row.bytes * times;
  std::vector<double> took;
  std::vector<double> out;
  std::vector<double> in;
  for (int i = 0; i < how_.repeats; ++i) {
    auto const from = device_->now();
    out_begin.record(out_);
    in_begin.record(in_);
    copy_out(pinned_out_.data(), row.bytes, times);
    copy_in(pinned_in_.data(), row.bytes, times);
    out_end.record(out_);
    in_end.record(in_);
    out_.synchronize();
    in_.synchronize();
    took.push_back(std::chrono::duration<double, std::micro>(device_->now() - from).count());
    double const out_us = device_->elapsed_us(out_begin, out_end);
    double const in_us = device_->elapsed_us(in_begin, in_end);
    double const later_us = device_->elapsed_us(out_begin, in_begin);  // negative where in began first
    double const overlap_us = std::min(out_us, later_us + in_us) - std::max(0.0, later_us);
    if (auto const rate = gbps_beside(all, out_us, overlap_us, row.out)) out.push_back(*rate);
    if (auto const rate = gbps_beside(all, in_us, overlap_us, row.in)) in.push_back(*rate);
  }
  row.both = gbps(2 * all, median(std::move(took)));
  if (!out.empty()) row.both_out = median(std::move(out));
  if (!in.empty()) row.both_in = median(std::move(in));
}

double link_bench::memcpy_us(std::size_t bytes, std::size_t times) {
  std::vector<double> took;
  for (int i = 0; i < how_.repeats; ++i) {
    auto const from = std::chrono::steady_clock::now();
    for (std::size_t k = 0; k < times; ++k) {
      std::memcpy(other_.data(), pageable_.data(), bytes);
      asm volatile("" : : "r"(other_.data()) : "memory");  // or the compiler would copy once
    }
    took.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count());
  }
  return median(std::move(took));
}

link_row link_bench::measure(std::size_t bytes) {
  std::size_t const times = std::clamp<std::size_t>(batch_bytes / bytes, 1, most_in_batch);
  std::size_t const all = bytes * times;
  link_row row{.bytes = bytes};
  row.out = gbps(all, timed_us(out_, [&] { copy_out(pinned_out_.data(), bytes, times); }));
  row.in = gbps(all, timed_us(in_, [&] { copy_in(pinned_in_.data(), bytes, times); }));
  measure_both(row, times);
  row.pageable_out = gbps(all, timed_us(out_, [&] { copy_out(pageable_.data(), bytes, times); }));
  row.pageable_in = gbps(all, timed_us(in_, [&] { copy_in(pageable_.data(), bytes, times); }));
  row.limit = lanes_ ? lanes_->gbps : gbps(all, memcpy_us(bytes, times));
  return row;
}

chunk_row link_bench::measure_chunk(std::size_t bytes, std::size_t chunk) {
  auto const cut = [&](auto const& copy) {
    for (std::size_t at = 0; at < bytes; at += chunk) copy(at, std::min(chunk, bytes - at));
  };
  chunk_row row{.chunk_bytes = chunk};
  row.out = gbps(bytes, timed_us(out_, [&] {
                   cut([&](std::size_t at, std::size_t size) {
                     device_->copy(out_, "out", copy_direction::device_to_host, pinned_out_.as<std::byte>() + at,
                                   source_.as<std::byte>() + at, size);
                   });
                 }));
  row.in = gbps(bytes, timed_us(in_, [&] {
                  cut([&](std::size_t at, std::size_t size) {
                    device_->copy(in_, "in", copy_direction::host_to_device, target_.as<std::byte>() + at,
                                  pinned_in_.as<std::byte>() + at, size);
                  });
                }));
  return row;
}

link_result link_bench::run() {
  link_result all;
  all.device = device_->capabilities().name;
  bool const is_gpu = dynamic_cast<host_device const*>(device_.get()) == nullptr;
  if (is_gpu) lanes_ = lanes_of(how_.settings);
  all.limit_words = lanes_   ? fmt::format("{}: the raw rate of its lanes, one way", lanes_->words)
                    : is_gpu ? "memcpy of one thread in host memory; the system does not tell the lanes"
                             : "memcpy of one thread on this machine";
  auto const& paced = how_.settings.link_gbps;
  if (!is_gpu && (paced.device_to_host > 0 || paced.host_to_device > 0)) {
    all.paced_words = fmt::format("FERRY_LINK_GBPS holds the link to {:g} GB/s out and {:g} in", paced.device_to_host,
                                  paced.host_to_device);
  } else if (!is_gpu) {
    all.paced_words =
        "as fast as this machine copies; sessions on the host device hold their link to FERRY_LINK_GBPS, which is less";
  }
  touch();
  for (std::size_t bytes = smallest_copy; bytes <= how_.largest && !interrupted(); bytes *= 4) {
    shown_.show(fmt::format("copies of {}", format_bytes(bytes)));
    all.sizes.push_back(measure(bytes));
  }
  all.moved_bytes = std::min(how_.largest, std::size_t{64} << 20);
  constexpr std::size_t smallest_chunk = std::size_t{64} << 10;
  for (std::size_t chunk = smallest_chunk; chunk <= all.moved_bytes / 4 && !interrupted(); chunk *= 2) {
    shown_.show(fmt::format("chunks of {}", format_bytes(chunk)));
    all.chunks.push_back(measure_chunk(all.moved_bytes, chunk));
  }
  all.interrupted = interrupted();
  return all;
}

}  // namespace

std::optional<double> gbps_beside(std::size_t bytes, double own_us, double overlap_us, double alone_gbps) noexcept {
  constexpr double enough = 0.5;
  if (overlap_us <= 0 || overlap_us < enough * own_us) return std::nullopt;
  double const alone_bytes = 1e3 * alone_gbps * (own_us - overlap_us);
  return 1e-3 * std::max(0.0, static_cast<double>(bytes) - alone_bytes) / overlap_us;
}

std::optional<pcie_rate> pcie_rate_of(std::string_view speed, std::string_view width) {
  double transfers = 0;  // 1e9 a second and lane
  int lanes = 0;
  auto const a = std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
  auto const b = std::from_chars(width.data(), width.data() + width.size(), lanes);
  constexpr int most_lanes = 32;
  if (a.ec != std::errc{} || b.ec != std::errc{} || lanes < 1 || lanes > most_lanes) return std::nullopt;
  struct generation {
    double transfers;
    int number;
    double payload;  // of the line code
  };
  constexpr generation generations[] = {{2.5, 1, 0.8},        {5, 2, 0.8},          {8, 3, 128.0 / 130},
                                        {16, 4, 128.0 / 130}, {32, 5, 128.0 / 130}, {64, 6, 242.0 / 256}};
  for (auto const& one : generations) {
    if (one.transfers != transfers) continue;
    return pcie_rate{transfers * one.payload * lanes / 8, fmt::format("PCIe {} x{}", one.number, lanes)};
  }
  return std::nullopt;
}

std::optional<std::size_t> link_result::good_chunk() const {
  double best = 0;
  for (auto const& one : chunks) best = std::max(best, std::min(one.out, one.in));
  constexpr double nearly = 0.95;
  for (auto const& one : chunks) {
    if (best > 0 && std::min(one.out, one.in) >= nearly * best) return one.chunk_bytes;
  }
  return std::nullopt;
}

double link_result::gain_over(std::size_t chunk_bytes) const {
  auto const good = good_chunk();
  auto const speed_of = [&](std::size_t chunk) {
    auto const found = std::ranges::find(chunks, chunk, &chunk_row::chunk_bytes);
    return found == chunks.end() ? 0 : std::min(found->out, found->in);
  };
  double const now = speed_of(chunk_bytes);
  return good && now > 0 ? speed_of(*good) / now : 1;
}

link_result measure_link(link_options const& how, progress& shown) {
  auto all = link_bench(how, shown).run();
  if (!all.interrupted) all.beside = measure_contention(how.settings, how.largest, 2 * how.repeats + 1, shown);
  shown.clear();
  all.interrupted = interrupted();
  return all;
}

}  // namespace ferry::command
