#include "operator/kube/api.h"

#include "operator/kube/json_text.h"

namespace lockstep::kube {
namespace {

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<ListEnd> Api::list_text(const Resource& resource, const ListOptions& options,
                               const std::function<void(std::string_view)>& on_item) {
  LOCKSTEP_TRY(const ListPage page, list(resource, options));
  for (const Json& item : page.items) on_item(text_of(item));
  return ListEnd{page.resource_version, page.continue_token};
}

Status Api::watch_text(const Resource& resource, const WatchOptions& options,
                       const std::function<bool(WatchEventType, std::string_view)>& on_event, std::stop_token stop) {
  return watch(
      resource, options, [&](const WatchEvent& event) { return on_event(event.type, text_of(event.object)); },
      std::move(stop));
}

}  // namespace lockstep::kube
