// CUDA's stream capture and graphs.
#include <cstdint>

#include <fmt/format.h>

#include "resolve.hpp"

namespace cudasim {

namespace {

template <typename Handle>
std::uintptr_t number_of(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle) >> 8U;
}

template <typename Handle>
Handle graph_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number << 8U);
}

cudaError_t remove_graph(char const* function, std::uintptr_t number) {
  if (sim().graphs.remove(number)) return cudaSuccess;
  sim().report(fmt::format("invalid handle: {} is given a graph that was destroyed or never made", function));
  return cudaErrorInvalidValue;
}

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  return api_call("cudaStreamBeginCapture", by_handle, [&] {
    auto const [found, error] = resolve_stream("cudaStreamBeginCapture", stream);
    if (error != cudaSuccess) return error;
    if (found->handle == nullptr) return cudaErrorStreamCaptureUnsupported;
    return sim().captures.begin(*found, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return api_call("cudaStreamEndCapture", by_handle, [&] {
    if (pGraph == nullptr) return cudaErrorInvalidValue;
    *pGraph = nullptr;
    auto const [found, error] = resolve_stream("cudaStreamEndCapture", stream);
    if (error != cudaSuccess) return error;
    work_list work;
    cudaError_t const ended = sim().captures.end(*found, work);
    if (ended == cudaSuccess) *pGraph = graph_handle<cudaGraph_t>(sim().graphs.add(std::move(work)));
    return ended;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* pCaptureStatus) {
  return api_call("cudaStreamIsCapturing", by_handle, [&] {
    if (pCaptureStatus == nullptr) return cudaErrorInvalidValue;
    auto const [found, error] = resolve_stream("cudaStreamIsCapturing", stream);
    if (error != cudaSuccess) return error;
    *pCaptureStatus = sim().captures.status(*found);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  return api_call("cudaThreadExchangeStreamCaptureMode", by_handle, [&] {
    if (mode == nullptr) return cudaErrorInvalidValue;
    std::swap(*mode, this_thread().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long) {
  return api_call("cudaGraphInstantiate", call_rules{}, [&] {
    auto const work = sim().graphs.find(number_of(graph));
    if (pGraphExec == nullptr || work == nullptr) return cudaErrorInvalidValue;
    *pGraphExec = graph_handle<cudaGraphExec_t>(sim().graphs.add(*work));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return api_call("cudaGraphLaunch", by_handle, [&] {
    auto const work = sim().graphs.find(number_of(graphExec));
    if (work == nullptr) return cudaErrorInvalidValue;
    auto const [found, error] = resolve_stream("cudaGraphLaunch", stream);
    if (error != cudaSuccess) return error;
    for (operation const& each : *work) {
      cudaError_t const result = submit(*found, each);
      if (result != cudaSuccess) return result;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call("cudaGraphDestroy", destroying, [&] { return remove_graph("cudaGraphDestroy", number_of(graph)); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return api_call("cudaGraphExecDestroy", destroying,
                  [&] { return remove_graph("cudaGraphExecDestroy", number_of(graphExec)); });
}

}  // extern "C"
