#include "support/bounded_json.hpp"

#include <fmt/format.h>

#include <utility>

namespace ferry::support {

namespace {

std::string message_of(std::string_view place, std::string_view problem, std::string_view fix) {
  return fmt::format("{}{}{}; {}", place, place.empty() ? "" : ": ", problem, fix);
}

}  // namespace

bad_field::bad_field(std::string place, std::string problem, std::string fix)
    : format_error(message_of(place, problem, fix)),
      place_(std::move(place)),
      problem_(std::move(problem)),
      fix_(std::move(fix)) {}

bad_field bad_field::inside(std::string_view outer) const {
  bool const joined = place_.empty() || place_.front() == '[';
  return {fmt::format("{}{}{}", outer, joined ? "" : ".", place_), problem_, fix_};
}

bounded_source::bounded_source(std::streambuf& from, std::size_t most_bytes, std::string fix)
    : from_(from), most_bytes_(most_bytes), fix_(std::move(fix)) {}

bounded_source::int_type bounded_source::underflow() {
  if (read_bytes_ - done_bytes_ > most_token_bytes) {
    throw bad_field("", "has a text, a number or a gap of more than 1 MiB", "it is no file of Ferry's: write it again");
  }
  auto const count = from_.sgetn(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (count <= 0) return traits_type::eof();
  read_bytes_ += static_cast<std::size_t>(count);
  if (read_bytes_ > most_bytes_) {
    throw bad_field("", fmt::format("is larger than {} MiB", most_bytes_ >> 20), fix_);
  }
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(buffer_.front());
}

std::string_view bounded_json::words_of(nlohmann::detail::exception const& problem) {
  std::string_view text = problem.what();
  constexpr std::string_view before_line = "parse error at ";
  if (auto const at = text.find(before_line); at != text.npos) text.remove_prefix(at + before_line.size());
  return text;
}

bool bounded_json::key(string_t& name) {
  source_.progress();
  frames_.back().key = std::move(name);
  named(frames_.back());
  return true;
}

bool bounded_json::begin(json empty) {
  source_.progress();
  if (frames_.size() == most_depth_) too_deep();
  json_frame next{.value = std::move(empty), .where = {}, .key = {}, .values_outside = values_};
  if (!frames_.empty()) {
    json_frame const& outer = frames_.back();
    next.where = outer.where;
    if (outer.value.is_object()) next.where.append(next.where.empty() ? "" : ".").append(outer.key);
  }
  begins(next);
  count_value();
  frames_.push_back(std::move(next));
  return true;
}

bool bounded_json::end() {
  json_frame ended = std::move(frames_.back());
  frames_.pop_back();
  // What a row held is given back with it; what stays in the document counts on.
  if (!frames_.empty() && frames_.back().has_rows()) values_ = ended.values_outside;
  return put(std::move(ended.value));
}

bool bounded_json::put(json&& value) {
  source_.progress();
  if (frames_.empty()) {
    values_ = 0;
    document(std::move(value));
    return true;
  }
  json_frame& top = frames_.back();
  if (top.value.is_object()) {
    member(top, value);
    top.value.emplace(top.key, std::move(value));
    return true;
  }
  if (top.has_rows()) {
    row(top, value);
  } else {
    top.value.push_back(std::move(value));
  }
  ++top.index;
  return true;
}

void bounded_json::count_value() {
  if (++values_ > most_values_) too_many();
}

std::string bounded_json::path_of(std::size_t frames) const {
  std::string text;
  for (std::size_t i = 0; i < frames; ++i) {
    if (frames_[i].value.is_array()) {
      text += fmt::format("[{}]", frames_[i].index);
    } else {
      text.append(text.empty() ? "" : ".").append(frames_[i].key);
    }
  }
  return text;
}

}  // namespace ferry::support
