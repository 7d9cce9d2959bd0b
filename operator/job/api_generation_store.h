// Records of the coordinator as ConfigMaps "<job>-record", owned by the job, written by compare-and-set on their
// resourceVersion.
#pragma once

#include <string>

#include "operator/kube/api.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {

class ApiGenerationStore final : public rendezvous::GenerationStore {
 public:
  // `api` outlives this.
  explicit ApiGenerationStore(kube::Api& api) : api_(api) {}

  // An absent ConfigMap is an empty record with version "". kUnavailable while the ConfigMap of an earlier job of the
  // same name is still being collected; kAlreadyExists when the name belongs to somebody else; kCorrupt when the record
  // cannot be read.
  Result<Versioned> load(const std::string& name_space, const std::string& job, const std::string& uid) override;
  Result<std::string> compare_and_set(const std::string& name_space, const std::string& job, const std::string& uid,
                                      const std::string& version, const rendezvous::Record& next) override;

 private:
  kube::Api& api_;
};

// The ConfigMap of the record of that job.
std::string record_name(const std::string& job);

// The record as text and back; kCorrupt for text that is none.
std::string record_to_text(const rendezvous::Record& record);
Result<rendezvous::Record> record_from_text(const std::string& text);

}  // namespace lockstep::job
