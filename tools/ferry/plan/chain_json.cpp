// Reading a case: only the problem's own keys are ever stored, so a file's size and nesting cannot blow up memory.
#include "plan/chain_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "ferry/error.hpp"

namespace ferry::planning {

namespace {

using nlohmann::json;

// Far beyond any machine, and small enough that sums and quotients of these stay finite and exact to a byte or so.
constexpr double max_seconds = 1e9;
constexpr double max_bytes = 1e18;
constexpr double max_bytes_per_s = 1e24;  // "an infinite link" is written as a large number
constexpr std::uintmax_t max_file_bytes = std::uintmax_t{256} << 20;
constexpr std::size_t max_name_chars = 256;

constexpr std::array<std::string_view, 17> known_keys{"name",
                                                      "L",
                                                      "fwd_s",
                                                      "bwd_s",
                                                      "boundary_bytes",
                                                      "saved_bytes",
                                                      "fwd_tmp_bytes",
                                                      "bwd_tmp_bytes",
                                                      "gpu_mem_bytes",
                                                      "d2h_Bps",
                                                      "h2d_Bps",
                                                      "host_bytes",
                                                      "out_beside_back",
                                                      "back_beside_out",
                                                      "compute_beside_out",
                                                      "compute_beside_back",
                                                      "compute_beside_both"};

class case_reader {
 public:
  explicit case_reader(std::filesystem::path const& file) : file_(file) {}

  chain read() {
    std::ifstream in = opened();
    return read(in);
  }

  chain read(std::istream& in) {
    load(in);
    std::size_t const stages = stage_count();
    chain result;
    result.name = name();
    result.forward_s = numbers("fwd_s", stages, max_seconds);
    result.backward_s = numbers("bwd_s", stages, max_seconds);
    result.boundary_bytes = numbers("boundary_bytes", stages + 1, max_bytes);
    result.saved_bytes = numbers("saved_bytes", stages, max_bytes);
    result.forward_scratch_bytes = scratch("fwd_tmp_bytes", stages);
    result.backward_scratch_bytes = scratch("bwd_tmp_bytes", stages);
    result.device_bytes = number("gpu_mem_bytes", at("gpu_mem_bytes"), max_bytes);
    result.d2h_bytes_per_s = rate("d2h_Bps");
    result.h2d_bytes_per_s = rate("h2d_Bps");
    json const& host = at("host_bytes");
    result.host_bytes = host.is_null() ? chain::unlimited : number("host_bytes", host, max_bytes);
    result.beside = {.out_beside_back = share("out_beside_back"),
                     .back_beside_out = share("back_beside_out"),
                     .compute_beside_out = share("compute_beside_out"),
                     .compute_beside_back = share("compute_beside_back"),
                     .compute_beside_both = share("compute_beside_both")};
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view place, std::string_view problem) const {
    throw format_error(fmt::format("case '{}': {}: {}", file_.string(), place, problem));
  }

  [[nodiscard]] std::ifstream opened() const {
    std::error_code status;
    std::uintmax_t const size = std::filesystem::file_size(file_, status);
    if (status) fail("the file", status.message() + "; name a file that can be read");
    if (size > max_file_bytes) {
      fail("the file", fmt::format("is {} bytes long; a case has at most {} bytes", size, max_file_bytes));
    }
    std::ifstream in(file_, std::ios::binary);
    if (!in) fail("the file", "cannot be opened; check its permissions");
    return in;
  }

  void load(std::istream& in) {
    try {
      root_ = json::parse(
          in, [this](int depth, json::parse_event_t event, json& parsed) { return wanted(depth, event, parsed); });
    } catch (json::exception const& problem) {
      // Parse errors carry line and column; the other errors of this library do not happen while parsing, except for
      // a number that no double holds.
      fail("the text", fmt::format("is not JSON ({:.200}); write it again, whole", problem.what()));
    }
    if (!root_.is_object()) fail("the text", R"(is not an object; write a case as {"L": ..., "fwd_s": [...], ...})");
  }

  /// Whether the parser keeps what it just met. Throws where keeping it would already be a mistake.
  bool wanted(int depth, json::parse_event_t event, json const& parsed) {
    using event_t = json::parse_event_t;
    if (event == event_t::key && depth == 1) {
      auto const& key = parsed.get_ref<std::string const&>();
      auto const found = std::find(known_keys.begin(), known_keys.end(), key);
      key_ = found == known_keys.end() ? std::string_view{} : *found;
      elements_ = 0;
      if (key_.empty()) return false;
      bool& seen = seen_[static_cast<std::size_t>(found - known_keys.begin())];
      if (std::exchange(seen, true)) fail(key_, "appears twice; keep one");
      return true;
    }
    if (key_.empty()) return depth == 0 || event == event_t::object_end || event == event_t::array_end;
    bool const opens = event == event_t::array_start || event == event_t::object_start;
    if (opens && depth >= 2) fail(fmt::format("{}[{}]", key_, elements_), "is a list or an object; write a number");
    if (event == event_t::value && depth >= 2 && ++elements_ > max_case_stages + 1) {
      fail(key_, fmt::format("has too many entries; a case has at most {} stages", max_case_stages));
    }
    return true;
  }

  [[nodiscard]] json const& at(std::string_view key) const {
    auto const found = root_.find(std::string(key));
    if (found == root_.end()) fail(key, "is missing; add it");
    return *found;
  }

  [[nodiscard]] double number(std::string_view place, json const& value, double largest) const {
    if (!value.is_number()) fail(place, fmt::format("is {}; write a number", kind(value)));
    auto const result = value.get<double>();
    if (!(result >= 0 && result <= largest)) {
      fail(place, fmt::format("is {:.6g}; it must be between 0 and {:g}", result, largest));
    }
    return result;
  }

  [[nodiscard]] std::vector<double> numbers(std::string_view key, std::size_t count, double largest) const {
    json const& list = at(key);
    if (!list.is_array()) fail(key, fmt::format("is {}; write a list of {} numbers", kind(list), count));
    if (list.size() != count) {
      fail(key, fmt::format("has {} entries; with L = {} it needs {}", list.size(), stage_count(), count));
    }
    std::vector<double> result;
    result.reserve(count);
    for (json const& value : list) result.push_back(number(fmt::format("{}[{}]", key, result.size()), value, largest));
    return result;
  }

  [[nodiscard]] std::vector<double> scratch(std::string_view key, std::size_t stages) const {
    auto const found = root_.find(std::string(key));
    if (found == root_.end() || found->is_null()) return std::vector<double>(stages);
    return numbers(key, stages, max_bytes);
  }

  /// What is left of a speed beside something else; all of it unless the case says otherwise.
  [[nodiscard]] double share(std::string_view key) const {
    auto const found = root_.find(std::string(key));
    if (found == root_.end() || found->is_null()) return 1;
    double const left = number(key, *found, 1);
    if (left < contention::least) fail(key, fmt::format("is {:g}; give {} to 1", left, contention::least));
    return left;
  }

  /// No rate, like a rate of nothing, is no link: a link without a limit would be written as a large number.
  [[nodiscard]] double rate(std::string_view key) const {
    json const& value = at(key);
    return value.is_null() ? 0 : number(key, value, max_bytes_per_s);
  }

  [[nodiscard]] std::size_t stage_count() const {
    double const value = number("L", at("L"), static_cast<double>(max_case_stages));
    if (value < 1 || value != std::floor(value)) {
      fail("L", fmt::format("is {:.6g}; it must be a whole number of stages, at least 1", value));
    }
    return static_cast<std::size_t>(value);
  }

  [[nodiscard]] std::string name() const {
    auto const found = root_.find("name");
    if (found == root_.end()) return file_.stem().string();
    if (!found->is_string()) fail("name", fmt::format("is {}; write a string", kind(*found)));
    auto result = found->get<std::string>();
    if (result.size() > max_name_chars) fail("name", fmt::format("is longer than {} characters", max_name_chars));
    return result;
  }

  static std::string kind(json const& value) {
    std::string_view const type = value.type_name();
    return fmt::format("{}{}", type == "null" ? "" : type == "array" || type == "object" ? "an " : "a ", type);
  }

  std::filesystem::path file_;
  json root_;
  std::string_view key_;  // the top-level key being parsed; empty while what is parsed is ignored
  std::size_t elements_ = 0;
  std::array<bool, known_keys.size()> seen_{};
};

}  // namespace

chain read_chain(std::filesystem::path const& file) { return case_reader(file).read(); }

chain parse_chain(std::istream& in, std::filesystem::path const& file) { return case_reader(file).read(in); }

}  // namespace ferry::planning
