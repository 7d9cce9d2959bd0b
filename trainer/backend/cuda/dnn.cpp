#include "trainer/backend/cuda/dnn.h"

#include "trainer/cuda/library.h"

namespace lockstep::trainer::cuda {

Result<Dnn> open_dnn(const std::string& library) {
  LOCKSTEP_TRY(Library opened,
               Library::open({library.empty() ? "libcudnn.so.9" : library}, "cuDNN", "--cudnn-library"));
  Dnn dnn;
  opened.find(dnn.get_version, "cudnnGetVersion");
  opened.find(dnn.get_cudart_version, "cudnnGetCudartVersion");
  opened.find(dnn.status_string, "cudnnGetErrorString");
  opened.find(dnn.last_error, "cudnnGetLastErrorString");
  opened.find(dnn.create, "cudnnCreate");
  opened.find(dnn.destroy, "cudnnDestroy");
  opened.find(dnn.set_stream, "cudnnSetStream");
  opened.find(dnn.create_descriptor, "cudnnBackendCreateDescriptor");
  opened.find(dnn.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  opened.find(dnn.set, "cudnnBackendSetAttribute");
  opened.find(dnn.get, "cudnnBackendGetAttribute");
  opened.find(dnn.finalize, "cudnnBackendFinalize");
  opened.find(dnn.execute, "cudnnBackendExecute");
  LOCKSTEP_CHECK_OK(opened.status());
  return dnn;
}

}  // namespace lockstep::trainer::cuda
