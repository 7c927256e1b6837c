// Processes that explore programs side by side; see explorers.hpp.
#include "explore/explorers.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "explore/explored_run.hpp"

namespace ferry::testing {

namespace {

using clock = std::chrono::steady_clock;

/// What a process lets the others see of its work while it is at it.
struct shared_state {
  std::atomic<std::uint64_t> at{0};  ///< the program's number
  std::atomic<std::uint64_t> programs{0};
  std::atomic<bool> stop{false};
};

/// Of all processes, in memory that they share.
class shared_states {
 public:
  explicit shared_states(unsigned count) : count_(count) {
    void* const mapped =
        mmap(nullptr, count * sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("no memory to share with other processes");
    states_ = static_cast<shared_state*>(mapped);
    for (unsigned i = 0; i < count; ++i) new (&states_[i]) shared_state;
  }
  shared_states(shared_states const&) = delete;
  shared_states& operator=(shared_states const&) = delete;
  ~shared_states() { munmap(states_, count_ * sizeof(shared_state)); }

  [[nodiscard]] shared_state& operator[](unsigned i) { return states_[i]; }
  void stop_all() {
    for (auto& each : std::span(states_, count_)) each.stop.store(true);
  }
  [[nodiscard]] std::uint64_t programs() const {
    std::uint64_t sum = 0;
    for (auto const& each : std::span(states_, count_)) sum += each.programs.load();
    return sum;
  }

 private:
  unsigned count_;
  shared_state* states_ = nullptr;
};

/// Records in a file: a letter, two numbers and a text.
void write_record(FILE* to, char kind, std::uint64_t number, std::string_view text) {
  std::uint64_t const bytes = text.size();
  std::fwrite(&kind, 1, 1, to);
  std::fwrite(&number, sizeof number, 1, to);
  std::fwrite(&bytes, sizeof bytes, 1, to);
  std::fwrite(text.data(), 1, text.size(), to);
}

bool read_record(FILE* from, char& kind, std::uint64_t& number, std::string& text) {
  std::uint64_t bytes = 0;
  if (std::fread(&kind, 1, 1, from) != 1 || std::fread(&number, sizeof number, 1, from) != 1 ||
      std::fread(&bytes, sizeof bytes, 1, from) != 1) {
    return false;
  }
  text.resize(bytes);
  return std::fread(text.data(), 1, bytes, from) == bytes;
}

/// The part of one process: every so-manieth program.
void explore_share(exploring const& how, unsigned process, shared_state& state, FILE* out) {
  coverage total;
  auto const until = how.time ? clock::now() + *how.time : clock::time_point::max();
  for (std::uint64_t i = process; !state.stop.load(); i += how.processes) {
    if ((how.most && i >= *how.most) || clock::now() >= until) break;
    std::uint64_t const number = how.first + i;
    state.at.store(number);
    auto const drawn = explored_program(number);
    auto const seen = explore(drawn);
    total.add(seen.met);
    auto problems = seen.problems;
    if (how.twice && !(explore(drawn) == seen)) problems += "another outcome when it is run again\n";
    state.programs.fetch_add(1);
    if (problems.empty()) continue;
    write_record(out, 'f', number, problems);
    std::fflush(out);
    if (!how.go_on) break;
  }
  for (auto const& [what, times] : total.met()) write_record(out, 'm', times, what.text());
  std::fflush(out);
}

struct worker {
  pid_t process = 0;
  FILE* results = nullptr;
};

worker start_worker(exploring const& how, unsigned number, shared_state& state) {
  FILE* const results = std::tmpfile();
  if (results == nullptr) throw std::runtime_error("no temporary file for another process's results");
  std::fflush(nullptr);
  pid_t const process = fork();
  if (process < 0) throw std::runtime_error("no further process");
  if (process == 0) {
    signal(SIGINT, SIG_IGN);  // whoever started it tells it to stop
    explore_share(how, number, state, results);
    _exit(0);
  }
  return {process, results};
}

std::atomic<bool> interrupted{false};

void take_in(worker const& from, exploration_result& result) {
  std::rewind(from.results);
  char kind = 0;
  std::uint64_t number = 0;
  std::string text;
  while (read_record(from.results, kind, number, text)) {
    if (kind == 'f') result.failures.push_back({number, text});
    if (kind == 'm') result.met[text] += number;
  }
}

/// How the process ended, if that was not by itself.
std::string crash_of(int status) {
  if (WIFSIGNALED(status)) return std::string("crashed: ") + strsignal(WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? "ended with an exit code" : "";
}

}  // namespace

void stop_when_interrupted() {
  struct sigaction stop {};
  stop.sa_handler = [](int) { interrupted.store(true); };
  sigaction(SIGINT, &stop, nullptr);
}

exploration_result explore_programs(exploring const& how) {
  auto const began = clock::now();
  shared_states states(how.processes);
  std::vector<worker> workers;
  for (unsigned i = 0; i < how.processes; ++i) workers.push_back(start_worker(how, i, states[i]));

  exploration_result result;
  std::vector<int> statuses(workers.size(), 0);
  for (std::size_t running = workers.size(); running > 0;) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers[i].process == 0 || waitpid(workers[i].process, &statuses[i], WNOHANG) == 0) continue;
      workers[i].process = 0;
      --running;
      std::size_t const failures = result.failures.size();
      take_in(workers[i], result);
      std::fclose(workers[i].results);
      if (auto const crash = crash_of(statuses[i]); !crash.empty()) {
        result.failures.push_back({states[static_cast<unsigned>(i)].at.load(), crash});
      }
      if (result.failures.size() > failures && !how.go_on) states.stop_all();
    }
    if (interrupted.load()) states.stop_all();
    if (how.progress) std::fprintf(stderr, "\r%llu programs ", static_cast<unsigned long long>(states.programs()));
    usleep(20'000);
  }
  if (how.progress) std::fputc('\n', stderr);
  result.programs = states.programs();
  result.seconds = std::chrono::duration<double>(clock::now() - began).count();
  return result;
}

}  // namespace ferry::testing
