// A fuzz target without libFuzzer: REPLAY FOLDER MUTATIONS runs it on every file of the folder, then on that many
// mutations of them. The same mutations each time: what fails here fails again.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "fuzz.hpp"

namespace {

using bytes = std::string;

std::vector<bytes> files_of(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> names;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path());
  std::sort(names.begin(), names.end());  // or mutations would depend on the file system
  std::vector<bytes> files;
  for (auto const& name : names) {
    std::ifstream in(name, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

/// What parsers of texts and JSON have cases for.
constexpr std::array<std::string_view, 20> tokens{
    "{",       "}",       "[",    "]",  ",",          ":",      "\"",
    "null",    "true",    "-1",   "0",  "1e999",      "1e-999", "18446744073709551616",
    "\\u0000", "\\ud800", "\xff", "\n", "[[[[[[[[[[", "{\"a\":"};

class mutator {
 public:
  explicit mutator(std::vector<bytes> const& from) : from_(from) {}

  bytes next() {
    bytes input = from_[below(from_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  void change(bytes& input) {
    std::size_t const at = below(input.size() + 1);
    std::size_t const length = below(std::min<std::size_t>(input.size() - at, 64) + 1);
    switch (below(6)) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        input.insert(at, input.substr(at, length));
        break;
      case 3:
        input.insert(at, tokens[below(tokens.size())]);
        break;
      case 4: {
        bytes const& other = from_[below(from_.size())];
        std::size_t const begin = below(other.size() + 1);
        input.replace(at, length, other, begin, below(64));
        break;
      }
      default:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
    }
  }

  std::vector<bytes> const& from_;
  std::mt19937_64 random_{1};
};

void run(bytes const& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<std::uint8_t const*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER MUTATIONS\n", argv[0]);
    return 2;
  }
  auto const corpus = files_of(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "there is no file in '%s'\n", argv[1]);
    return 1;
  }
  for (auto const& input : corpus) run(input);
  unsigned long const mutations = std::strtoul(argv[2], nullptr, 10);
  mutator mutated(corpus);
  for (unsigned long i = 0; i < mutations; ++i) run(mutated.next());
  std::printf("%zu files and %lu mutations of them\n", corpus.size(), mutations);
  return 0;
}
