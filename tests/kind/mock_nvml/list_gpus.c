// Prints what the management library under it says of the GPUs, as `nvidia-smi -L` does: one line each, or why there is
// none. The tests hold it against what the device plugin and the kubelet made of the same library. With the argument
// `wait` it does nothing until SIGTERM: a container beside the plugin, in which the tests start it again to list.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct nvmlDevice_st* nvmlDevice_t;

static int wait_for_the_end(void) {
  sigset_t ends;
  int number;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  return sigwait(&ends, &number);
}

int main(int count_of_arguments, char** arguments) {
  if (count_of_arguments > 1 && strcmp(arguments[1], "wait") == 0) return wait_for_the_end();
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "list_gpus: %s\n", dlerror());
    return 1;
  }
  int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
  const char* (*text)(int) = (const char* (*)(int))dlsym(library, "nvmlErrorString");
  int (*count)(unsigned*) = (int (*)(unsigned*))dlsym(library, "nvmlDeviceGetCount_v2");
  int (*handle)(unsigned, nvmlDevice_t*) =
      (int (*)(unsigned, nvmlDevice_t*))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
  int (*uuid)(nvmlDevice_t, char*, unsigned) =
      (int (*)(nvmlDevice_t, char*, unsigned))dlsym(library, "nvmlDeviceGetUUID");
  int (*name)(nvmlDevice_t, char*, unsigned) =
      (int (*)(nvmlDevice_t, char*, unsigned))dlsym(library, "nvmlDeviceGetName");
  if (!init || !text || !count || !handle || !uuid || !name) {
    fprintf(stderr, "list_gpus: a function is missing in libnvidia-ml.so.1\n");
    return 1;
  }
  unsigned gpus = 0;
  int status = init();
  if (!status) status = count(&gpus);
  for (unsigned index = 0; !status && index < gpus; ++index) {
    nvmlDevice_t device;
    char id[80], model[96];
    status = handle(index, &device);
    if (!status) status = uuid(device, id, sizeof id);
    if (!status) status = name(device, model, sizeof model);
    if (!status) printf("GPU %u: %s (UUID: %s)\n", index, model, id);
  }
  if (status) fprintf(stderr, "list_gpus: NVML: %s\n", text(status));
  return status ? 1 : 0;
}
