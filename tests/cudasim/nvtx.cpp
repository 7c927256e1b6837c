// The profiler's ranges: counted, and remembered per thread to name what is enqueued inside them.
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <string_view>

#include "emulation.hpp"

namespace cudasim {

namespace {

char const* text_of(nvtxEventAttributes_t const* attributes) {
  bool const readable = attributes != nullptr && attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  return readable ? attributes->message.ascii : nullptr;
}

int push(char const* text) {
  ++sim().ranges_pushed;
  auto& ranges = this_thread().ranges;
  ranges.emplace_back(text != nullptr ? text : "range");
  return static_cast<int>(ranges.size()) - 1;
}

int pop() {
  ++sim().ranges_popped;
  auto& ranges = this_thread().ranges;
  if (ranges.empty()) {
    sim().report("profiler ranges: nvtxRangePop without a push before it");
    return -1;
  }
  ranges.pop_back();
  return static_cast<int>(ranges.size());
}

void mark() { ++sim().marks; }

}  // namespace

}  // namespace cudasim

struct nvtxDomainRegistration_st {
  std::string name;
};

extern "C" {

int nvtxRangePushA(char const* message) { return cudasim::push(message); }
int nvtxRangePushEx(nvtxEventAttributes_t const* eventAttrib) { return cudasim::push(cudasim::text_of(eventAttrib)); }
int nvtxRangePop() { return cudasim::pop(); }
void nvtxMarkA(char const*) { cudasim::mark(); }
void nvtxMarkEx(nvtxEventAttributes_t const*) { cudasim::mark(); }

nvtxDomainHandle_t nvtxDomainCreateA(char const* name) { return new nvtxDomainRegistration_st{name}; }
void nvtxDomainDestroy(nvtxDomainHandle_t domain) { delete domain; }
int nvtxDomainRangePushEx(nvtxDomainHandle_t, nvtxEventAttributes_t const* eventAttrib) {
  return cudasim::push(cudasim::text_of(eventAttrib));
}
int nvtxDomainRangePop(nvtxDomainHandle_t) { return cudasim::pop(); }
void nvtxDomainMarkEx(nvtxDomainHandle_t, nvtxEventAttributes_t const*) { cudasim::mark(); }

}  // extern "C"
