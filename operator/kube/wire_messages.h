// The messages that are read in protobuf, each with the fields that code of this project reads. A field has the number
// that it has in the protobuf files of k8s.io/api/core/v1 and k8s.io/apimachinery. A number never changes there.
#pragma once

#include "operator/kube/api.h"
#include "operator/kube/wire_text.h"

namespace lockstep::kube {

// Of the objects of a kind, or null: they are read in JSON. Pods are read in protobuf.
const WireMessage* message_of(const Resource& resource);

const WireMessage& status_message();         // metav1.Status, in place of an answer or as the end of a watch
const WireMessage& metadata_message();       // metav1.PartialObjectMetadata
const WireMessage& list_metadata_message();  // metav1.ListMeta

}  // namespace lockstep::kube
