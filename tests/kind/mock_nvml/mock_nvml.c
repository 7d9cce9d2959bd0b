// A MOCK of NVIDIA's management library (libnvidia-ml.so.1): as many H100s as a control file says, and their
// faults. No GPU, no driver and no code of NVIDIA's is behind it. It has the functions that NVIDIA's device plugin
// v0.19.1 calls.
//
// The control file is $MOCK_NVML_CONTROL (/var/lib/mock-nvml/control), read again at every call; without one there are
// 8 healthy GPUs. One statement a line, GPUs are counted from 0, a line that does not parse makes every call fail with
// NVML_ERROR_UNKNOWN:
//
//   gpus N          so many GPUs (0 to 16)
//   uuid GPU UUID   this GPU says that it is UUID
//   init CODE       nvmlInit fails with this code (9: the driver is not loaded)
//   xid GPU CODE    an event that programs which wait already get, each once: appending the line is the moment
//   ecc GPU N       N uncorrected double-bit errors, and an event as above
//   lost GPU        the GPU has fallen off the bus: an Xid 79 as above, and its sensors fail with
//   NVML_ERROR_GPU_IS_LOST
//
// What identifies a GPU (index, UUID, name, PCI address) stays readable when it is lost, as a driver that caches it has
// it.
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

enum { kMaxGpus = 16, kMaxEvents = 256 };

// Of nvml.h, with its names and values.
typedef enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;
typedef struct nvmlDevice_st {
  unsigned index;
} * nvmlDevice_t;
typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;
typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
typedef struct nvmlEventSet_st {
  int watch;           // an inotify instance on the control file's folder
  unsigned delivered;  // events of the control file that this set has handed out, or that are older than it
  unsigned gpus;       // those registered, as bits
} * nvmlEventSet_t;
enum { nvmlEventTypeDoubleBitEccError = 2, nvmlEventTypeXidCriticalError = 8 };

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  unsigned gpu;
  unsigned long long type, data;
} Event;

typedef struct {
  int gpus, init;
  char uuid[kMaxGpus][64];
  unsigned long long ecc[kMaxGpus];
  int lost[kMaxGpus];
  unsigned event_count;
  Event events[kMaxEvents];
} Control;

static struct nvmlDevice_st devices[kMaxGpus];
static int initialised = 0;

static const char* control_path(void) {
  const char* path = getenv("MOCK_NVML_CONTROL");
  return path ? path : "/var/lib/mock-nvml/control";
}

// The same UUID for the same GPU of the same node, and another on every other.
static void default_uuid(unsigned gpu, char out[64]) {
  const char* node = getenv("MOCK_NVML_NODE");
  uint64_t hash = 14695981039346656037ull;
  for (const char* at = node ? node : "node"; *at; ++at) hash = (hash ^ (unsigned char)*at) * 1099511628211ull;
  hash = (hash ^ gpu) * 1099511628211ull;
  snprintf(out, 64, "GPU-%08x-%04x-%04x-%04x-%012x", (unsigned)(hash >> 32), (unsigned)(hash >> 16) & 0xffff,
           0x4000 | (unsigned)(hash & 0xfff), 0x8000 | (gpu & 0xf), gpu);
}

static int add_event(Control* control, unsigned gpu, unsigned long long type, unsigned long long data) {
  if (control->event_count == kMaxEvents) return 0;
  control->events[control->event_count++] = (Event){gpu, type, data};
  return 1;
}

static int parse(Control* control, const char* line) {
  unsigned gpu = 0;
  unsigned long long number = 0;
  char text[64] = "", extra;
  if (line[0] == '\0' || line[0] == '#') return 1;
  if (sscanf(line, "gpus %llu %c", &number, &extra) == 1)
    return number <= kMaxGpus ? (control->gpus = (int)number, 1) : 0;
  if (sscanf(line, "init %llu %c", &number, &extra) == 1) return control->init = (int)number, 1;
  if (sscanf(line, "uuid %u %63s %c", &gpu, text, &extra) == 2 && gpu < kMaxGpus)
    return strcpy(control->uuid[gpu], text), 1;
  if (sscanf(line, "xid %u %llu %c", &gpu, &number, &extra) == 2 && gpu < kMaxGpus)
    return add_event(control, gpu, nvmlEventTypeXidCriticalError, number);
  if (sscanf(line, "ecc %u %llu %c", &gpu, &number, &extra) == 2 && gpu < kMaxGpus)
    return control->ecc[gpu] = number, add_event(control, gpu, nvmlEventTypeDoubleBitEccError, number);
  if (sscanf(line, "lost %u %c", &gpu, &extra) == 1 && gpu < kMaxGpus)
    return control->lost[gpu] = 1, add_event(control, gpu, nvmlEventTypeXidCriticalError, 79);
  return 0;
}

static nvmlReturn_t read_control(Control* control) {
  memset(control, 0, sizeof *control);
  control->gpus = 8;
  for (unsigned gpu = 0; gpu < kMaxGpus; ++gpu) default_uuid(gpu, control->uuid[gpu]);
  FILE* file = fopen(control_path(), "re");
  if (!file) return errno == ENOENT ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
  char line[256];
  nvmlReturn_t result = NVML_SUCCESS;
  while (result == NVML_SUCCESS && fgets(line, sizeof line, file)) {
    size_t length = strlen(line);
    while (length && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
    if (!parse(control, line)) result = NVML_ERROR_UNKNOWN;
  }
  fclose(file);
  return result;
}

// The state of a device that a caller has named, or why there is none.
static nvmlReturn_t look(nvmlDevice_t device, Control* control) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  if (device < devices || device >= devices + kMaxGpus) return NVML_ERROR_INVALID_ARGUMENT;
  return read_control(control);
}

static nvmlReturn_t sense(nvmlDevice_t device, Control* control) {
  nvmlReturn_t result = look(device, control);
  return result == NVML_SUCCESS && control->lost[device->index] ? NVML_ERROR_GPU_IS_LOST : result;
}

static nvmlReturn_t copy_text(const char* text, char* out, unsigned length) {
  if (strlen(text) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) {
  Control control;
  nvmlReturn_t result = read_control(&control);
  if (result != NVML_SUCCESS) return result;
  if (control.init) return (nvmlReturn_t)control.init;
  for (unsigned index = 0; index < kMaxGpus; ++index) devices[index].index = index;
  initialised++;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlInit(void) {
  return nvmlInit_v2();
}
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  return nvmlInit_v2();
}
EXPORT nvmlReturn_t nvmlShutdown(void) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  initialised--;
  return NVML_SUCCESS;
}
EXPORT const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned length) {
  return copy_text("580.0.mock", out, length);
}
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned length) {
  return copy_text("13.580.0.mock", out, length);
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return *version = 13000, NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  Control control;
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_control(&control);
  *count = (unsigned)control.gpus;
  return result;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  Control control;
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_control(&control);
  if (result != NVML_SUCCESS) return result;
  if (index >= (unsigned)control.gpus) return NVML_ERROR_INVALID_ARGUMENT;
  *device = &devices[index];
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  Control control;
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_control(&control);
  if (result != NVML_SUCCESS) return result;
  for (int index = 0; index < control.gpus; ++index) {
    if (strcmp(uuid, control.uuid[index]) == 0) return *device = &devices[index], NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  Control control;
  nvmlReturn_t result = look(device, &control);
  if (result == NVML_SUCCESS) *index = device->index;
  return result;
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) {
  return nvmlDeviceGetIndex(device, minor);
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  Control control;
  nvmlReturn_t result = look(device, &control);
  return result == NVML_SUCCESS ? copy_text(control.uuid[device->index], uuid, length) : result;
}
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  Control control;
  nvmlReturn_t result = look(device, &control);
  return result == NVML_SUCCESS ? copy_text("NVIDIA H100 80GB HBM3", name, length) : result;
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  Control control;
  nvmlReturn_t result = look(device, &control);
  if (result != NVML_SUCCESS) return result;
  memset(info, 0, sizeof *info);
  info->bus = 0x10 + device->index;
  info->pciDeviceId = 0x233010de;
  snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", info->bus);
  snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", info->bus);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned* architecture) {
  *architecture = 9;  // Hopper
  return nvmlDeviceGetIndex(device, &(unsigned){0});
}
EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned* brand) {
  *brand = 14;  // NVIDIA
  return nvmlDeviceGetIndex(device, &(unsigned){0});
}
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  *major = 9, *minor = 0;
  return nvmlDeviceGetIndex(device, &(unsigned){0});
}
EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  *current = *pending = 0;
  return nvmlDeviceGetIndex(device, &(unsigned){0});
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  Control control;
  nvmlReturn_t result = sense(device, &control);
  *memory = (nvmlMemory_t){85520809984ull, 85520809984ull, 0};
  return result;
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                                unsigned long long* errors) {
  Control control;
  (void)counter;  // volatile and aggregate counters are the same: nothing resets them
  nvmlReturn_t result = sense(device, &control);
  if (result == NVML_SUCCESS) *errors = type == 1 ? control.ecc[device->index] : 0;
  return result;
}
// All GPUs of a node are behind one switch of PCI, with 18 links of NVLink to switches; their far end is no GPU.
EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned* level) {
  (void)other;
  *level = 10;
  return nvmlDeviceGetIndex(one, &(unsigned){0});
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned* active) {
  *active = 0;
  return link < 18 ? nvmlDeviceGetIndex(device, &(unsigned){0}) : NVML_ERROR_INVALID_ARGUMENT;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t* info) {
  (void)device, (void)link, (void)info;
  return NVML_ERROR_NOT_SUPPORTED;
}
EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, void* mode) {
  (void)device, (void)mode;
  return NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  Control control;
  *types = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
  return sense(device, &control);
}
EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  Control control;
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_control(&control);
  if (result != NVML_SUCCESS) return result;
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", control_path());
  char* slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  nvmlEventSet_t made = calloc(1, sizeof *made);
  if (!made) return NVML_ERROR_UNKNOWN;
  made->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (made->watch < 0 || inotify_add_watch(made->watch, folder, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
    if (made->watch >= 0) close(made->watch);
    free(made);
    return NVML_ERROR_UNKNOWN;
  }
  made->delivered = control.event_count;
  *set = made;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  close(set->watch);
  free(set);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  Control control;
  (void)types;
  nvmlReturn_t result = sense(device, &control);
  if (result == NVML_SUCCESS) set->gpus |= 1u << device->index;
  return result;
}

// The next event of the control file that this set has not handed out.
static int next_event(nvmlEventSet_t set, const Control* control, nvmlEventData_t* data) {
  if (set->delivered > control->event_count) set->delivered = control->event_count;  // the file was rewritten
  while (set->delivered < control->event_count) {
    const Event* event = &control->events[set->delivered++];
    if (!(set->gpus >> event->gpu & 1)) continue;
    *data = (nvmlEventData_t){&devices[event->gpu], event->type, event->data, 0xffffffff, 0xffffffff};
    return 1;
  }
  return 0;
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeout_ms) {
  const long long end = now_ms() + timeout_ms;
  for (;;) {
    Control control;
    nvmlReturn_t result = read_control(&control);
    if (result != NVML_SUCCESS) return result;
    if (next_event(set, &control, data)) return NVML_SUCCESS;
    const long long left = end - now_ms();
    if (left <= 0) return NVML_ERROR_TIMEOUT;
    struct pollfd written = {set->watch, POLLIN, 0};
    if (poll(&written, 1, (int)left) < 0 && errno != EINTR) return NVML_ERROR_UNKNOWN;
    char changes[4096];
    while (read(set->watch, changes, sizeof changes) > 0) {
    }
  }
}
