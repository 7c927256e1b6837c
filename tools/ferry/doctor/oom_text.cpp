#include "doctor/oom_text.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "doctor/oom_wordings.hpp"

namespace ferry::command {

namespace {

using oom::wording;

constexpr std::size_t nowhere = std::string_view::npos;
constexpr std::size_t most_message_bytes = 4096;  // from where a message begins, and before it

/// Where one stands in the text.
struct mention {
  wording const* how = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;  ///< of its words, with those that continue it
};

/// All mentions from front to back. Each wording's next place is searched once it has been passed: so every wording
/// looks at the text once.
class mentions {
 public:
  explicit mentions(std::string_view text) : text_(text), next_(oom::wordings().size(), 0) {
    for (std::size_t i = 0; i < next_.size(); ++i) next_[i] = text_.find(oom::wordings()[i].words);
  }

  /// The next one; of two at the same place the longer one.
  [[nodiscard]] std::optional<mention> next() {
    auto const all = oom::wordings();
    mention found;
    found.begin = nowhere;
    for (std::size_t i = 0; i < all.size(); ++i) {
      while (next_[i] != nowhere && (next_[i] < from_ || !is_one(all[i], next_[i]))) {
        next_[i] = text_.find(all[i].words, std::max(from_, next_[i] + 1));
      }
      if (next_[i] == nowhere || next_[i] > found.begin) continue;
      std::size_t const end = next_[i] + all[i].words.size();
      if (next_[i] < found.begin || end > found.end) found = {&all[i], next_[i], end};
    }
    if (found.begin == nowhere) return std::nullopt;
    from_ = found.end;
    return found;
  }

 private:
  [[nodiscard]] bool is_one(wording const& how, std::size_t at) const {
    return how.is_one == nullptr || how.is_one(text_.substr(at + how.words.size()));
  }

  std::string_view text_;
  std::vector<std::size_t> next_;  // of each wording
  std::size_t from_ = 0;
};

bool continues(mention const& one, mention const& before) {
  constexpr std::size_t close = 400;
  return one.how->continues && one.how->read == before.how->read && one.begin - before.end < close;
}

/// The last ones, and how many there were in all.
struct seen_mentions {
  std::deque<mention> last;
  std::size_t count = 0;
};

seen_mentions seen_in(std::string_view text) {
  constexpr std::size_t most = 64;
  seen_mentions seen;
  mentions all(text);
  while (auto const one = all.next()) {
    if (!seen.last.empty() && continues(*one, seen.last.back())) {
      seen.last.back().end = one->end;
      continue;
    }
    seen.last.push_back(*one);
    ++seen.count;
    if (seen.last.size() > most) seen.last.pop_front();
  }
  return seen;
}

/// Its line, from about there on, at most 200 bytes and cut between words.
std::string line_of(std::string_view text, std::size_t at) {
  constexpr std::size_t most = 200;
  constexpr std::size_t run_up = 100;
  std::size_t const newline = text.rfind('\n', at);
  std::size_t const begins = newline == nowhere ? 0 : newline + 1;
  std::size_t from = begins;
  if (at - begins > run_up) {
    std::size_t const space = text.find(' ', at - run_up);
    from = space < at ? space + 1 : at;
  }
  auto line = text.substr(from, std::min(text.find('\n', at), text.size()) - from);
  std::string shown = from > begins ? "... " : "";
  if (line.size() <= most) return shown + std::string(line);
  std::size_t const space = line.rfind(' ', most);
  bool const has_words = space != nowhere && from + space > at;
  return shown + std::string(line.substr(0, has_words ? space : most)) + " ...";
}

oom_message message_at(std::string_view text, seen_mentions const& seen, std::size_t i) {
  auto const& one = seen.last[i];
  std::size_t const behind = i + 1 < seen.last.size() ? seen.last[i + 1].begin : text.size();
  std::size_t const before = i > 0 ? seen.last[i - 1].end : 0;
  std::size_t const from = std::max(before, one.begin - std::min(one.begin, most_message_bytes));
  return one.how->read(
      {text.substr(from, one.begin - from), text.substr(one.begin, std::min(behind - one.begin, most_message_bytes))});
}

bool names_an_amount(oom_message const& one) {
  return one.requested || one.allocated || one.capacity || one.smallest || one.program || one.absurd;
}

}  // namespace

std::optional<oom_message> parse_oom(std::string_view text) {
  bool const cut = text.size() > most_oom_text_bytes;
  if (cut) text.remove_prefix(text.size() - most_oom_text_bytes);
  auto const seen = seen_in(text);
  if (seen.last.empty()) return std::nullopt;
  std::size_t which = seen.last.size() - 1;
  oom_message read = message_at(text, seen, which);
  for (std::size_t i = which; i-- > 0 && !names_an_amount(read);) {
    auto other = message_at(text, seen, i);
    if (!names_an_amount(other)) continue;
    read = std::move(other);
    which = i;
  }
  std::size_t const at = seen.last[which].begin;
  read.line = line_of(text, at);
  auto const lines_before = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  if (!cut) read.line_number = 1 + static_cast<std::size_t>(lines_before);
  read.of_messages = seen.count;
  read.number = seen.count - (seen.last.size() - 1 - which);
  return read;
}

}  // namespace ferry::command
