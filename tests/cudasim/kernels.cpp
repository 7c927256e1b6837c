// Launches of kernels: what their arguments point at, and how they run.
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include "cuda_runtime.h"
#include "fibers.hpp"
#include "resolve.hpp"

namespace cudasim {

namespace {

using any_function = void (*)();

/// What tests said of kernels; the program's, not the emulation's, and so not reset.
struct kernel_registry {
  std::mutex mutex;
  std::map<any_function, any_function> serial;
  std::map<any_function, std::string> names;
};

kernel_registry& registry() {
  static kernel_registry own;
  return own;
}

/// "void ferry::forward<float>(float*, int)" is "forward".
std::string short_name(std::string name) {
  name = name.substr(0, name.find('('));
  name = name.substr(0, name.find('<'));
  auto const at = name.find_last_of(": ");
  return at != std::string::npos ? name.substr(at + 1) : name;
}

std::string name_of_symbol(any_function kernel) {
  Dl_info found{};
  auto* const address = reinterpret_cast<void*>(kernel);
  bool const named = dladdr(address, &found) != 0 && found.dli_saddr == address && found.dli_sname != nullptr;
  if (!named) return "kernel";
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text(
      abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
  return short_name(text != nullptr ? text.get() : found.dli_sname);
}

std::string name_of(any_function kernel) {
  auto& known = registry();
  std::lock_guard const lock(known.mutex);
  auto const [at, is_new] = known.names.try_emplace(kernel);
  if (is_new) at->second = name_of_symbol(kernel);
  return at->second;
}

any_function serial_form(any_function kernel) {
  auto& known = registry();
  std::lock_guard const lock(known.mutex);
  auto const found = known.serial.find(kernel);
  return found != known.serial.end() ? found->second : nullptr;
}

/// Reports what is wrong with the shape.
bool is_possible(std::string const& name, cudaLaunchConfig_t const& config) {
  auto const& [grid, block] = std::pair(config.gridDim, config.blockDim);
  std::size_t const threads = std::size_t{block.x} * block.y * block.z;
  std::string wrong;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    wrong = fmt::format("a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
  } else if (grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535) {
    wrong = fmt::format("a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
  } else if (threads == 0 || threads > 1024 || block.z > 64) {
    wrong = fmt::format("a block of {} x {} x {} threads", block.x, block.y, block.z);
  } else if (config.dynamicSmemBytes > (std::size_t{48} << 10U)) {
    wrong = fmt::format("{} bytes of dynamic shared memory", config.dynamicSmemBytes);
  }
  if (wrong.empty()) return true;
  sim().report(fmt::format("invalid launch: the kernel '{}' with {}", name, wrong));
  return false;
}

/// The bytes that a kernel's arguments stand for, and where they really are.
struct kernel_memory {
  std::vector<ferry::memory_access> accesses;
  std::vector<void*> addresses;
  bool wrong = false;  ///< a GPU would fault; it was reported
};

/// What is wrong with a pointer that a kernel on `device` gets, or nothing.
std::string wrong_pointer(std::optional<allocation> const& in, int device) {
  if (!in) return "host pointer: {} memory of the host, neither pinned nor registered";
  if (in->freed) return fmt::format("use after free: {{}} '{}', which was freed", in->name.view());
  if (in->where == space::device && in->device != device) {
    return fmt::format("memory of another device: {{}} '{}' of device {}", in->name.view(), in->device);
  }
  return {};
}

kernel_memory memory_of(std::string const& name, detail::kernel_call const& call, int device) {
  emulation& own = sim();
  kernel_memory result;
  int number = 0;
  for (auto const& [address, read_only] : call.pointers) {
    ++number;
    result.addresses.push_back(own.memory.bytes_at(address));
    if (address == nullptr) continue;
    auto const in = own.memory.find(address);
    auto const wrong = wrong_pointer(in, device);
    if (!wrong.empty()) {
      own.report(fmt::format(fmt::runtime(wrong), fmt::format("pointer {} of the kernel '{}' is", number, name)));
      result.wrong = true;
      continue;
    }
    auto const begin = reinterpret_cast<std::uintptr_t>(address);
    std::size_t const bytes = own.blocks.end_of(begin, in->end()) - begin;
    result.accesses.push_back(read_only ? ferry::reads(address, bytes) : ferry::writes(address, bytes));
  }
  return result;
}

void run_blocks(std::size_t count, std::function<void(int, int)> const& blocks) {
  tbb::parallel_for(tbb::blocked_range<int>(0, static_cast<int>(count)),
                    [&](tbb::blocked_range<int> const& some) { blocks(some.begin(), some.end()); });
}

std::function<void(stream_state&)> work_of(std::string const& name, cudaLaunchConfig_t const& config,
                                           detail::kernel_call const& call, kernel_memory const& memory) {
  if (memory.wrong) return [](stream_state& on) { on.device.break_with(cudaErrorIllegalAddress); };
  kernel_settings settings;
  {
    std::lock_guard const lock(sim().mutex);
    settings = sim().kernels;
  }
  any_function const serial = settings.how == mode::serial ? serial_form(call.kernel) : nullptr;
  if (serial != nullptr) {
    std::size_t const count = std::size_t{config.gridDim.x} * config.gridDim.y * config.gridDim.z;
    return [count, blocks = call.blocks_with(memory.addresses, serial)](stream_state&) { run_blocks(count, blocks); };
  }
  grid_run const how{name, config.gridDim, config.blockDim, settings.order, settings.seed};
  return [how, thread = call.thread_with(memory.addresses)](stream_state&) { run_in_fibers(how, thread); };
}

cudaError_t launch_on(stream_state& stream, cudaLaunchConfig_t const& config, detail::kernel_call const& call) {
  auto const name = name_of(call.kernel);
  if (stream.device.index != this_thread().device) {
    sim().report(
        fmt::format("stream of another device: the kernel '{}' is launched on the stream {} while device {} is "
                    "current",
                    name, stream.name.view(), this_thread().device));
    return cudaErrorInvalidResourceHandle;
  }
  if (!is_possible(name, config)) return cudaErrorInvalidConfiguration;
  auto memory = memory_of(name, call, stream.device.index);
  operation work{.name = ferry::label::truncated(name), .kind = "kernel"};
  work.cost.what = work_cost::kind::kernel;
  work.run = work_of(name, config, call, memory);
  work.accesses = std::move(memory.accesses);
  return submit(stream, std::move(work));
}

}  // namespace

namespace detail {

cudaError_t launch(cudaLaunchConfig_t const* config, kernel_call call) {
  return api_call("cudaLaunchKernelEx", by_handle, [&] {
    if (config == nullptr || call.kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    auto const [stream, error] = resolve_stream("cudaLaunchKernelEx", config->stream);
    return error != cudaSuccess ? error : launch_on(*stream, *config, call);
  });
}

void register_serial(void (*kernel)(), void (*runner)()) {
  auto& known = registry();
  std::lock_guard const lock(known.mutex);
  known.serial[kernel] = runner;
}

void name_kernel(void (*kernel)(), std::string name) {
  auto& known = registry();
  std::lock_guard const lock(known.mutex);
  known.names[kernel] = std::move(name);
}

}  // namespace detail

}  // namespace cudasim
