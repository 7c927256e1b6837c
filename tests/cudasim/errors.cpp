// CUDA's error codes by name, in words, and by what they do to a device. The texts are the emulation's own.
#include "errors.hpp"

#include <algorithm>
#include <array>

namespace cudasim {

namespace {

struct error_entry {
  cudaError_t code;
  char const* name;
  char const* text;
};

#define CUDASIM_ERROR(name, text) \
  error_entry { name, #name, text }

constexpr std::array errors{
    CUDASIM_ERROR(cudaSuccess, "no error"),
    CUDASIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    CUDASIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    CUDASIM_ERROR(cudaErrorInitializationError, "the driver could not be initialised"),
    CUDASIM_ERROR(cudaErrorCudartUnloading, "the driver is shutting down"),
    CUDASIM_ERROR(cudaErrorProfilerDisabled, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorProfilerNotInitialized, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorProfilerAlreadyStarted, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorProfilerAlreadyStopped, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidConfiguration, "invalid launch configuration"),
    CUDASIM_ERROR(cudaErrorInvalidPitchValue, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidSymbol, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidHostPointer, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    CUDASIM_ERROR(cudaErrorInvalidTexture, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidTextureBinding, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidChannelDescriptor, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction"),
    CUDASIM_ERROR(cudaErrorAddressOfConstant, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorTextureFetchFailed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorTextureNotBound, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSynchronizationError, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidFilterSetting, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidNormSetting, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMixedDeviceExecution, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotYetImplemented, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMemoryValueTooLarge, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorStubLibrary, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInsufficientDriver, "the driver is missing or older than the runtime"),
    CUDASIM_ERROR(cudaErrorCallRequiresNewerDriver, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidSurface, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDuplicateVariableName, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDuplicateTextureName, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDuplicateSurfaceName, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDevicesUnavailable, "the device is busy or unavailable"),
    CUDASIM_ERROR(cudaErrorIncompatibleDriverContext, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMissingConfiguration, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorPriorLaunchFailure, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLaunchMaxDepthExceeded, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLaunchFileScopedTex, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLaunchFileScopedSurf, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSyncDepthExceeded, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLaunchPendingCountExceeded, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    CUDASIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device was found"),
    CUDASIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    CUDASIM_ERROR(cudaErrorDeviceNotLicensed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSoftwareValidityNotEstablished, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorStartupFailure, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidKernelImage, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDeviceUninitialized, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMapBufferObjectFailed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorUnmapBufferObjectFailed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorArrayIsMapped, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorAlreadyMapped, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNoKernelImageForDevice, "no kernel was compiled for this device"),
    CUDASIM_ERROR(cudaErrorAlreadyAcquired, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotMapped, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotMappedAsArray, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotMappedAsPointer, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorECCUncorrectable, "an uncorrectable memory error"),
    CUDASIM_ERROR(cudaErrorUnsupportedLimit, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorDeviceAlreadyInUse, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorPeerAccessUnsupported, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidPtx, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidGraphicsContext, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNvlinkUncorrectable, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorJitCompilerNotFound, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorUnsupportedPtxVersion, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorJitCompilationDisabled, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorUnsupportedExecAffinity, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorUnsupportedDevSideSync, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorContained, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidSource, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorFileNotFound, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSharedObjectSymbolNotFound, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSharedObjectInitFailed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorOperatingSystem, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    CUDASIM_ERROR(cudaErrorIllegalState, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLossyQuery, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSymbolNotFound, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotReady, "the work is not done yet"),
    CUDASIM_ERROR(cudaErrorIllegalAddress, "an illegal memory access"),
    CUDASIM_ERROR(cudaErrorLaunchOutOfResources, "too many resources for the launch"),
    CUDASIM_ERROR(cudaErrorLaunchTimeout, "the kernel ran for too long"),
    CUDASIM_ERROR(cudaErrorLaunchIncompatibleTexturing, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorPeerAccessNotEnabled, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSetOnActiveProcess, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorContextIsDestroyed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorAssert, "a device-side assertion failed"),
    CUDASIM_ERROR(cudaErrorTooManyPeers, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorHostMemoryAlreadyRegistered, "part of the memory is registered already"),
    CUDASIM_ERROR(cudaErrorHostMemoryNotRegistered, "the memory is not registered"),
    CUDASIM_ERROR(cudaErrorHardwareStackError, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorIllegalInstruction, "an illegal instruction"),
    CUDASIM_ERROR(cudaErrorMisalignedAddress, "a misaligned address"),
    CUDASIM_ERROR(cudaErrorInvalidAddressSpace, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidPc, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorLaunchFailure, "the kernel failed"),
    CUDASIM_ERROR(cudaErrorCooperativeLaunchTooLarge, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorTensorMemoryLeak, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorNotPermitted, "the call is not permitted here"),
    CUDASIM_ERROR(cudaErrorNotSupported, "the call is not supported"),
    CUDASIM_ERROR(cudaErrorSystemNotReady, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorSystemDriverMismatch, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorCompatNotSupportedOnDevice, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsConnectionFailed, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsRpcFailure, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsServerNotReady, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsMaxClientsReached, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsMaxConnectionsReached, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorMpsClientTerminated, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorCdpNotSupported, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorCdpVersionMismatch, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnsupported, "the call is not permitted while a stream captures"),
    CUDASIM_ERROR(cudaErrorStreamCaptureInvalidated, "a call that is not permitted has invalidated the capture"),
    CUDASIM_ERROR(cudaErrorStreamCaptureMerge, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnmatched, "the capture was not begun in this stream"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnjoined, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorStreamCaptureIsolation, "the capture depends on work that is not captured"),
    CUDASIM_ERROR(cudaErrorStreamCaptureImplicit, "the capture depends on the default stream"),
    CUDASIM_ERROR(cudaErrorCapturedEvent, "the event was recorded in a capture"),
    CUDASIM_ERROR(cudaErrorStreamCaptureWrongThread, "the capture was begun by another thread"),
    CUDASIM_ERROR(cudaErrorTimeout, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorGraphExecUpdateFailure, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorExternalDevice, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidClusterSize, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorFunctionNotLoaded, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidResourceType, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorInvalidResourceConfiguration, "an error that the emulation never makes by itself"),
    CUDASIM_ERROR(cudaErrorUnknown, "unknown error"),
    CUDASIM_ERROR(cudaErrorApiFailureBase, "an error that the emulation never makes by itself"),
};

#undef CUDASIM_ERROR

error_entry const* find(cudaError_t error) noexcept {
  auto const* const found = std::find_if(errors.begin(), errors.end(), [&](auto const& e) { return e.code == error; });
  return found != errors.end() ? found : nullptr;
}

}  // namespace

bool is_sticky(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace cudasim

extern "C" {

char const* cudaGetErrorName(cudaError_t error) {
  auto const* const found = cudasim::find(error);
  return found != nullptr ? found->name : "unrecognized error code";
}

char const* cudaGetErrorString(cudaError_t error) {
  auto const* const found = cudasim::find(error);
  return found != nullptr ? found->text : "unrecognized error code";
}

}  // extern "C"
