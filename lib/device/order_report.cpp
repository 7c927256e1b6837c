#include "device/order_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ferry {

namespace {

char const* verb(memory_access::mode how) { return how == memory_access::mode::read ? "reads" : "writes"; }

std::string title(named_operation const& named) {
  return fmt::format("'{}' on {}", named.operation.view(), named.place);
}

/// "64 bytes of 'h' [+0,+64)"
std::string bytes_of(named_block const& block, address_range range) {
  // Signed, because an access may begin below the block that it overruns.
  auto const offset = [&](std::uintptr_t address) { return static_cast<std::intptr_t>(address - block.range.begin); };
  return fmt::format("{} bytes of '{}' [{:+},{:+})", range.bytes(), block.name.view(), offset(range.begin),
                     offset(range.end));
}

/// What would have ordered the two.
char const* remedy(named_operation const& now, named_operation const& earlier) {
  if (earlier.on_host) return "missing hand-over";
  return now.on_host ? "missing synchronisation" : "missing event wait";
}

}  // namespace

void add_finding(std::vector<finding>& findings, finding const& found) {
  auto const continued = std::find_if(findings.begin(), findings.end(), [&](finding const& known) {
    return known.kind == found.kind && known.earlier == found.earlier && known.block == found.block &&
           known.range.end == found.range.begin;
  });
  if (continued == findings.end()) {
    findings.push_back(found);
  } else {
    continued->range.end = found.range.end;
  }
}

std::string describe(finding const& found, named_operation const& now, memory_access::mode how,
                     named_operation const& earlier) {
  std::string const access = fmt::format("{} {} {}", title(now), verb(how), bytes_of(*found.block, found.range));
  if (found.kind == fault::use_after_free) {
    return fmt::format("use after free: {}, which was freed; {}", access,
                       found.earlier ? "last used by " + title(earlier) : "it was never used before");
  }
  return fmt::format("{}: {} that {} may still be {}", remedy(now, earlier), access, title(earlier),
                     found.kind == fault::unordered_with_write ? "writing" : "reading");
}

std::string describe_overrun(named_operation const& now, memory_access::mode how, address_range accessed,
                             named_block const& block) {
  return fmt::format("out of range: {} {} {}, which has {} bytes", title(now), verb(how), bytes_of(block, accessed),
                     block.range.bytes());
}

std::string describe_early_removal(named_block const& slab, std::string const& by_place, bool writing,
                                   named_operation const& earlier) {
  return fmt::format("freed in flight: '{}' is freed by {} while {} may still be {} it", slab.name.view(), by_place,
                     title(earlier), writing ? "writing" : "reading");
}

void violation_list::add(std::string text) {
  if (std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return;
  if (texts_.size() == most) {
    ++left_out_;
    return;
  }
  texts_.push_back(std::move(text));
}

std::vector<std::string> violation_list::texts() const {
  std::vector<std::string> result = texts_;
  if (left_out_ > 0) result.push_back(fmt::format("{} more violations were left out", left_out_));
  return result;
}

}  // namespace ferry
