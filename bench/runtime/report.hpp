// What the bench prints and writes.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/chains.hpp"
#include "runtime/judge.hpp"

namespace ferry::bench {

void print_head();
void print_rows(std::vector<outcome> const& of_one_chain);
/// Per fault, against what is asked.
void print_summary(std::vector<outcome> const& all, std::vector<skipped_chain> const& skipped);
void write_json(std::filesystem::path const& file, std::vector<outcome> const& all,
                std::vector<skipped_chain> const& skipped);

}  // namespace ferry::bench
