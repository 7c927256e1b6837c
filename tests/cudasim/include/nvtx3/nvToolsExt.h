// The emulated NVTX: ranges are counted, and the innermost names the operations that its thread enqueues in it.
#pragma once

#if !defined(FERRY_CUDASIM)
#error "the emulated CUDA headers are for tests: link the target cudasim, which defines FERRY_CUDASIM"
#endif

#include <stdint.h>

#define FERRY_CUDASIM_HEADERS 1
#define NVTX_VERSION 3

typedef enum nvtxColorType_t { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 } nvtxColorType_t;
typedef enum nvtxMessageType_t {
  NVTX_MESSAGE_UNKNOWN = 0,
  NVTX_MESSAGE_TYPE_ASCII = 1,
  NVTX_MESSAGE_TYPE_UNICODE = 2
} nvtxMessageType_t;

typedef union nvtxMessageValue_t {
  char const* ascii;
  wchar_t const* unicode;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType;
  int32_t reserved0;
  union payload_t {
    uint64_t ullValue;
    int64_t llValue;
    double dValue;
    uint32_t uiValue;
    int32_t iValue;
    float fValue;
  } payload;
  int32_t messageType;
  nvtxMessageValue_t message;
} nvtxEventAttributes_v2;
typedef struct nvtxEventAttributes_v2 nvtxEventAttributes_t;

#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

struct nvtxDomainRegistration_st;
typedef struct nvtxDomainRegistration_st* nvtxDomainHandle_t;

extern "C" {

int nvtxRangePushA(char const* message);
int nvtxRangePushEx(nvtxEventAttributes_t const* eventAttrib);
int nvtxRangePop(void);
void nvtxMarkA(char const* message);
void nvtxMarkEx(nvtxEventAttributes_t const* eventAttrib);

nvtxDomainHandle_t nvtxDomainCreateA(char const* name);
void nvtxDomainDestroy(nvtxDomainHandle_t domain);
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* eventAttrib);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);
void nvtxDomainMarkEx(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* eventAttrib);

}  // extern "C"

#define nvtxRangePush nvtxRangePushA
#define nvtxMark nvtxMarkA
#define nvtxDomainCreate nvtxDomainCreateA
