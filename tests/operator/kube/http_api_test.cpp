// The requests of HttpApi and its reading of answers, without a network: tables of requests and of refusals.
#include "operator/kube/http_api.h"

#include <gtest/gtest.h>

#include <deque>

#include "operator/base/metrics.h"
#include "operator/kube/line_splitter.h"
#include "operator/kube/status_error.h"
#include "operator/kube/target.h"
#include "operator/kube/wire_messages.h"
#include "tests/operator/kube/wire_encoder.h"

namespace lockstep::kube {
namespace {

// Keeps the last request and gives the answers of the test.
class FakeTransport final : public Transport {
 public:
  struct Shared {
    Request last;
    std::deque<Response> answers;
    std::string stream_body;
  };
  explicit FakeTransport(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Result<Response> call(const Request& request) override {
    shared_->last = request;
    if (shared_->answers.empty()) return Response{200, R"({"metadata":{"resourceVersion":"1"}})", 0};
    Response answer = shared_->answers.front();
    shared_->answers.pop_front();
    return answer;
  }
  Result<Response> stream(const Request& request, const std::function<bool(std::string_view)>& on_data,
                          std::stop_token) override {
    shared_->last = request;
    on_data(shared_->stream_body);
    return Response{200, "", 0};
  }

 private:
  std::shared_ptr<Shared> shared_;
};

class HttpApiTest : public ::testing::Test {
 protected:
  ManualClock clock;
  MetricsRegistry metrics;
  std::shared_ptr<FakeTransport::Shared> wire = std::make_shared<FakeTransport::Shared>();
  HttpApi http{std::make_unique<FakeTransport>(wire), file_identity({.token = "secret"}, clock), "api:6443", clock,
               metrics};
  Api& api = http;

  std::string sent() const { return wire->last.method + " " + wire->last.target; }
};

TEST_F(HttpApiTest, reads_and_lists_ask_for_the_right_urls) {
  ASSERT_TRUE(api.get(kTrainingJobs, "team-a", "job"));
  EXPECT_EQ(sent(), "GET /apis/lockstep.dev/v1alpha1/namespaces/team-a/trainingjobs/job");
  EXPECT_EQ(wire->last.authorization, "Bearer secret");
  EXPECT_EQ(wire->last.lane, Lane::kCall);
  ASSERT_TRUE(api.get(kNodes, "", "n1"));
  EXPECT_EQ(sent(), "GET /api/v1/nodes/n1");
  ASSERT_TRUE(api.list(kPods, {}));
  EXPECT_EQ(sent(), "GET /api/v1/pods?limit=500");
  ASSERT_TRUE(api.list(kPods, {.name_space = "x",
                               .label_selector = "lockstep.dev/job-uid=1",
                               .field_selector = "spec.nodeName=n1",
                               .resource_version = "9",
                               .limit = 0}));
  EXPECT_EQ(sent(),
            "GET /api/v1/namespaces/x/pods?labelSelector=lockstep.dev%2Fjob-uid%3D1&fieldSelector=spec.nodeName%3Dn1&"
            "resourceVersion=9&resourceVersionMatch=NotOlderThan");
  // A continue token carries its version; the server refuses both together.
  ASSERT_TRUE(api.list(kPods, {.resource_version = "9", .limit = 2, .continue_token = "a+b="}));
  EXPECT_EQ(sent(), "GET /api/v1/pods?limit=2&continue=a%2Bb%3D");
}

TEST_F(HttpApiTest, writes_carry_the_field_manager_and_their_options) {
  const Json pod{{"kind", "Pod"}};
  ASSERT_TRUE(api.create(kPods, "x", pod, {.strict = true, .dry_run = true}));
  EXPECT_EQ(sent(), "POST /api/v1/namespaces/x/pods?fieldManager=lockstep-operator&fieldValidation=Strict&dryRun=All");
  EXPECT_EQ(wire->last.content_type, "application/json");
  EXPECT_EQ(wire->last.body, R"({"kind":"Pod"})");
  ASSERT_TRUE(api.replace(kTrainingJobs, "x", "j", pod, "status"));
  EXPECT_EQ(sent(),
            "PUT /apis/lockstep.dev/v1alpha1/namespaces/x/trainingjobs/j/status?fieldManager=lockstep-operator");
  const std::pair<PatchType, const char*> types[] = {
      {PatchType::kMerge, "application/merge-patch+json"},
      {PatchType::kJson, "application/json-patch+json"},
      {PatchType::kStrategicMerge, "application/strategic-merge-patch+json"},
      {PatchType::kApply, "application/apply-patch+yaml"},
  };
  for (const auto& [type, content_type] : types) {
    ASSERT_TRUE(api.patch(kPods, "x", "p", type, pod));
    EXPECT_EQ(wire->last.content_type, content_type);
    EXPECT_EQ(wire->last.target.find("force=true") != std::string::npos, type == PatchType::kApply);
  }
}

TEST_F(HttpApiTest, bulk_writes_have_a_lane_of_their_own) {
  const Json pod{{"kind", "Pod"}};
  ASSERT_TRUE(api.create(kPods, "x", pod, {.bulk = true}));
  EXPECT_EQ(wire->last.lane, Lane::kBulk);
  ASSERT_TRUE(api.remove(kPods, "x", "p", {.bulk = true}));
  EXPECT_EQ(wire->last.lane, Lane::kBulk);
  ASSERT_TRUE(api.replace(kTrainingJobs, "x", "j", pod, "status"));
  EXPECT_EQ(wire->last.lane, Lane::kCall);
  ASSERT_TRUE(api.replace(kLeases, "x", "l", pod, "", {.bulk = true}));
  EXPECT_EQ(wire->last.lane, Lane::kLease);
}

TEST_F(HttpApiTest, a_bulk_create_asks_for_metadata_alone) {
  const Json pod{{"kind", "Pod"}};
  ASSERT_TRUE(api.create(kPods, "x", pod, {.bulk = true}));
  EXPECT_EQ(wire->last.accept.find("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;"), 0U);
  EXPECT_NE(wire->last.accept.find(",application/json;as=PartialObjectMetadata;"), std::string::npos);
  ASSERT_TRUE(api.create(kPods, "x", pod));
  EXPECT_EQ(wire->last.accept.find("PartialObjectMetadata"), std::string::npos);
}

TEST_F(HttpApiTest, the_metadata_of_a_bulk_create_may_come_in_protobuf) {
  const Json object{{"metadata", {{"name", "p"}, {"uid", "u"}, {"resourceVersion", "7"}}}};
  wire->answers.push_back({201, testing::enveloped(testing::encoded(object, metadata_message())), 0});
  const auto made = api.create(kPods, "x", Json{{"kind", "Pod"}}, {.bulk = true});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, object);
  wire->answers.push_back({201, std::string("k8s\0\xff", 5), 0});
  EXPECT_EQ(api.create(kPods, "x", Json{{"kind", "Pod"}}, {.bulk = true}).error().code, ErrorCode::kUnavailable);
}

TEST_F(HttpApiTest, a_delete_carries_its_preconditions) {
  ASSERT_TRUE(api.remove(kPods, "x", "p", {.uid = "u", .resource_version = "7", .grace_period_seconds = 0}));
  EXPECT_EQ(sent(), "DELETE /api/v1/namespaces/x/pods/p");
  EXPECT_EQ(Json::parse(wire->last.body), (Json{{"apiVersion", "v1"},
                                                {"kind", "DeleteOptions"},
                                                {"propagationPolicy", "Background"},
                                                {"gracePeriodSeconds", 0},
                                                {"preconditions", {{"uid", "u"}, {"resourceVersion", "7"}}}}));
}

TEST_F(HttpApiTest, leases_have_their_own_lane_and_deadline) {
  ASSERT_TRUE(api.get(kLeases, "x", "l"));
  EXPECT_EQ(wire->last.lane, Lane::kLease);
  EXPECT_EQ(wire->last.deadline, std::chrono::seconds(5));
}

TEST_F(HttpApiTest, bytes_that_are_no_utf_8_do_not_stop_a_status) {
  ASSERT_TRUE(api.create(kPods, "x", {{"message", "\xff\xfe tail of stderr"}}, {}));
  EXPECT_NE(wire->last.body.find("tail of stderr"), std::string::npos);
}

TEST_F(HttpApiTest, managed_fields_are_dropped_and_items_get_their_kind) {
  wire->answers = {{200,
                    R"({"kind":"PodList","metadata":{"resourceVersion":"5","continue":"more"},
                        "items":[{"metadata":{"name":"a","managedFields":[{"x":1}]}}]})",
                    0}};
  const auto page = api.list(kPods, {});
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->resource_version, "5");
  EXPECT_EQ(page->continue_token, "more");
  EXPECT_EQ(page->items,
            std::vector<Json>{(Json{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "a"}}}})});
}

TEST_F(HttpApiTest, names_that_would_walk_the_url_are_refused_or_encoded) {
  EXPECT_EQ(api.get(kPods, "", "p").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(api.get(kPods, "x", "").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(api.get(kPods, "x", "..").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(api.create(kPods, "", Json::object(), {}).error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(api.get(kPods, "x", "a/../b?c#d"));
  EXPECT_EQ(sent(), "GET /api/v1/namespaces/x/pods/a%2F..%2Fb%3Fc%23d");
}

TEST_F(HttpApiTest, an_answer_that_is_no_object_is_unavailable) {
  for (const char* body : {"", "[]", "<html>", "{\"a\":"}) {
    wire->answers = {{200, body, 0}};
    EXPECT_EQ(api.get(kPods, "x", "p").error().code, ErrorCode::kUnavailable) << body;
  }
  for (const char* body : {"{}", R"({"metadata":{"resourceVersion":"1"},"items":7})"}) {
    wire->answers = {{200, body, 0}};
    EXPECT_EQ(api.list(kPods, {}).error().code, ErrorCode::kUnavailable) << body;
  }
  wire->answers = {{200, R"({"metadata":{"resourceVersion":"1"},"items":null})", 0}};
  EXPECT_TRUE(api.list(kPods, {}));
}

TEST_F(HttpApiTest, texts_of_a_list_are_those_that_the_server_sent) {
  wire->answers.push_back(Response{200,
                                   R"({"kind":"PodList","metadata":{"resourceVersion":"7","continue":"a\/b"},"items":[
      {"metadata": {"name":"a","managedFields":[1]}} ,{"spec":"}]{["}]})",
                                   0});
  std::vector<std::string> items;
  const auto end = api.list_text(kPods, {.field_selector = "status.phase!=Failed", .resource_version = "5"},
                                 [&](std::string_view item) { items.emplace_back(item); });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(sent(),
            "GET /api/v1/pods?fieldSelector=status.phase%21%3DFailed&limit=500&resourceVersion=5&"
            "resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(items,
            (std::vector<std::string>{R"({"metadata": {"name":"a","managedFields":[1]}})", R"({"spec":"}]{["})"}));
  EXPECT_EQ(end->resource_version, "7");
  EXPECT_EQ(end->continue_token, "a/b");
}

TEST_F(HttpApiTest, a_list_of_texts_that_is_cut_off_gives_none_of_them) {
  for (const char* body : {R"({"metadata":{"resourceVersion":"7"},"items":[{},{})",
                           R"({"metadata":{"resourceVersion":"7"},"items":[{},{}]} x)",
                           R"({"metadata":{"resourceVersion":"7"},"items":{"a":1}})", R"({"items":[{}]})", "", "[]",
                           R"({"items":[{}],"metadata":"7"})"}) {
    wire->answers.push_back(Response{200, body, 0});
    const auto end = api.list_text(kPods, {}, [&](std::string_view) { ADD_FAILURE() << "an item of " << body; });
    ASSERT_FALSE(end) << body;
    EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(end.error().message, "api:6443 did not answer with a list of pods");
  }
  wire->answers.push_back(Response{200, R"({"items":null,"metadata":{"resourceVersion":"7"}})", 0});
  EXPECT_TRUE(api.list_text(kPods, {}, [](std::string_view) { ADD_FAILURE(); })) << "no items";
  wire->answers.push_back(Response{410, R"({"kind":"Status","code":410,"reason":"Expired"})", 0});
  EXPECT_EQ(api.list_text(kPods, {}, [](std::string_view) {}).error().code, ErrorCode::kGone);
}

TEST_F(HttpApiTest, texts_of_a_watch_are_the_objects_of_its_events) {
  wire->stream_body =
      "{\"type\":\"ADDED\",\"object\":{\"a\": 1}}\n"
      "{\"object\":{\"b\":\"}\"},\"type\":\"DELETED\"}\n"
      "garbage\n"
      "{\"type\":\"NEW\",\"object\":{}}\n"
      "{\"type\":\"ADDED\",\"object\":[]}\n"
      "{\"type\":\"BOOKMARK\",\"object\":{}}\n"
      "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}}\n"
      "{\"type\":\"ADDED\",\"object\":{\"after\":1}}\n";
  std::vector<std::string> seen;
  const auto ended = api.watch_text(kPods, {.resource_version = "3"},
                                    [&](WatchEventType type, std::string_view object) {
                                      seen.push_back(std::to_string(static_cast<int>(type)) + std::string(object));
                                      return true;
                                    },
                                    {});
  EXPECT_EQ(seen, (std::vector<std::string>{R"(0{"a": 1})", R"(2{"b":"}"})", "3{}"}));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kGone);
  EXPECT_NE(metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 3"), std::string::npos);
}

TEST_F(HttpApiTest, objects_of_a_watch_have_the_fields_that_are_asked_for) {
  wire->stream_body =
      "{\"type\":\"ADDED\",\"object\":{\"a\":{\"b\":1,\"c\":2},\"d\":[nonsense]}}\n"
      "{\"type\":\"ADDED\",\"object\":{\"a\":{\"b\":nonsense}}}\n";
  const JsonPaths fields{{"a|b"}};
  std::vector<Json> seen;
  const auto on_event = [&](WatchEvent event) {
    seen.push_back(std::move(event.object));
    return true;
  };
  EXPECT_TRUE(api.watch(kPods, {.fields = &fields}, on_event, {}));
  EXPECT_EQ(seen, (std::vector<Json>{{{"a", {{"b", 1}}}}}));
  EXPECT_NE(metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 1"), std::string::npos);
}

// Pods are asked for in protobuf by a reader that names its fields.
class InProtobuf : public HttpApiTest {
 protected:
  const JsonPaths fields{{"metadata|name"}, {"metadata|resourceVersion"}};

  static std::string pod(const std::string& name, const std::string& version) {
    const Json object{{"metadata", {{"name", name}, {"uid", "u"}, {"resourceVersion", version}}}};
    return testing::encoded(object, *message_of(kPods));
  }
  static std::string status(int code, const std::string& reason, const std::string& message) {
    const Json object{{"code", code}, {"reason", reason}, {"message", message}, {"status", "Failure"}};
    return testing::enveloped(testing::encoded(object, status_message()));
  }
  // The texts of a watch, each with its type in front.
  Status watched() {
    const auto add = [this](WatchEventType type, std::string_view object) {
      seen.push_back(std::to_string(static_cast<int>(type)) + std::string(object));
      return true;
    };
    return api.watch_text(kPods, {.fields = &fields}, add, {});
  }
  std::vector<std::string> seen;
};

TEST_F(InProtobuf, only_pods_of_named_fields_are_asked_for) {
  const std::string wanted = "application/vnd.kubernetes.protobuf,application/json";
  const auto list = [this](const Resource& resource, const JsonPaths* named) {
    static_cast<void>(api.list_text(resource, {.fields = named}, [](std::string_view) {}));
    return wire->last.accept;
  };
  EXPECT_EQ(list(kPods, &fields), wanted);
  EXPECT_NE(list(kPods, nullptr), wanted);
  EXPECT_NE(list(kNodes, &fields), wanted);
  EXPECT_TRUE(watched());
  EXPECT_EQ(wire->last.accept, wanted);
}

TEST_F(InProtobuf, a_list_gives_the_texts_of_its_items) {
  const std::string list = testing::bytes_field(1, testing::bytes_field(2, "7") + testing::bytes_field(3, "more")) +
                           testing::bytes_field(2, pod("a", "5")) + testing::bytes_field(2, pod("b", "6"));
  wire->answers.push_back({200, testing::enveloped(list), 0});
  const auto end =
      api.list_text(kPods, {.fields = &fields}, [this](std::string_view item) { seen.emplace_back(item); });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->resource_version, "7");
  EXPECT_EQ(end->continue_token, "more");
  EXPECT_EQ(seen, (std::vector<std::string>{R"({"metadata":{"name":"a","resourceVersion":"5"}})",
                                            R"({"metadata":{"name":"b","resourceVersion":"6"}})"}));
  for (const std::string& answer : {testing::enveloped(""), testing::enveloped("\x0a\x09")}) {
    wire->answers.push_back({200, answer, 0});
    EXPECT_EQ(api.list_text(kPods, {.fields = &fields}, [](std::string_view) {}).error().code, ErrorCode::kUnavailable);
  }
}

TEST_F(InProtobuf, a_watch_gives_the_texts_of_its_events) {
  wire->stream_body = testing::framed("ADDED", testing::enveloped(pod("a", "5"))) +
                      testing::framed("ADDED", "no envelope") +
                      testing::framed("NEW", testing::enveloped(pod("a", "5"))) +
                      testing::framed("DELETED", testing::enveloped(pod("a", "6"))) +
                      testing::framed("ERROR", status(410, "Expired", "old")) +
                      testing::framed("ADDED", testing::enveloped(pod("after", "7")));
  const auto ended = watched();
  EXPECT_EQ(seen, (std::vector<std::string>{R"(0{"metadata":{"name":"a","resourceVersion":"5"}})",
                                            R"(2{"metadata":{"name":"a","resourceVersion":"6"}})"}));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kGone);
  EXPECT_EQ(ended.error().message, "old");
  EXPECT_NE(metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 2"), std::string::npos);
}

TEST_F(InProtobuf, a_server_may_answer_in_json_all_the_same) {
  wire->stream_body = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n";
  EXPECT_TRUE(watched());
  EXPECT_EQ(seen, (std::vector<std::string>{R"(0{"metadata":{"name":"a"}})"}));
  wire->answers.push_back({200, R"({"metadata":{"resourceVersion":"7"},"items":[{"a":1}]})", 0});
  const auto end =
      api.list_text(kPods, {.fields = &fields}, [this](std::string_view item) { seen.emplace_back(item); });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(seen.back(), R"({"a":1})");
}

TEST_F(InProtobuf, a_refusal_is_read_as_in_json) {
  wire->answers.push_back({403, status(403, "Forbidden", "pods is forbidden"), 0});
  const auto refused = api.list_text(kPods, {.fields = &fields}, [](std::string_view) {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kForbidden);
  EXPECT_EQ(refused.error().message, "pods is forbidden");
  wire->answers.push_back({403, std::string("k8s\0\xff", 5), 0});
  EXPECT_EQ(api.list_text(kPods, {.fields = &fields}, [](std::string_view) {}).error().message, "HTTP 403");
}

TEST_F(HttpApiTest, requests_are_counted_by_outcome) {
  wire->answers = {{409, R"({"kind":"Status","reason":"Conflict","message":"no"})", 0}};
  EXPECT_FALSE(api.get(kPods, "x", "p"));
  EXPECT_NE(metrics.text().find(R"(rest_client_requests_total{code="409",host="api:6443",method="GET"} 1)"),
            std::string::npos)
      << metrics.text();
}

TEST_F(HttpApiTest, a_429_tells_its_caller_how_long_to_wait_and_holds_up_no_other) {
  wire->answers = {{429, R"({"message":"wait"})", 3.0}};
  const auto refused = api.get(kPods, "x", "p");
  EXPECT_EQ(refused.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(refused.error().retry_after_seconds, 3.0);
  EXPECT_TRUE(api.replace(kTrainingJobs, "x", "j", Json::object(), "status")) << "the time of this clock stands still";
}

struct Refusal {
  int status;
  const char* body;
  ErrorCode code;
  const char* message;
};

TEST(StatusError, uses_the_servers_words) {
  const Refusal table[] = {
      {400, R"({"message":"bad"})", ErrorCode::kInvalid, "bad"},
      {422, R"({"reason":"Invalid","message":"spec.nodes: must be at least 1"})", ErrorCode::kInvalid,
       "spec.nodes: must be at least 1"},
      {401, R"({"message":"Unauthorized"})", ErrorCode::kUnauthorized,
       "the server did not accept our credentials (Unauthorized): they are wrong or have expired"},
      {403, R"({"message":"pods is forbidden: User \"a\" cannot list resource \"pods\""})", ErrorCode::kForbidden,
       "pods is forbidden: User \"a\" cannot list resource \"pods\""},
      {404, R"({"message":"trainingjobs \"a\" not found","details":{"name":"a"}})", ErrorCode::kNotFound,
       "trainingjobs \"a\" not found"},
      {404, "404 page not found\n", ErrorCode::kNotFound,
       "TrainingJob (lockstep.dev/v1alpha1) is not known to this server: install the chart, or kubectl apply -f "
       "manifests/crd.yaml"},
      {404, R"({"message":"the server could not find the requested resource","details":{"name":"x"}})",
       ErrorCode::kNotFound,
       "TrainingJob (lockstep.dev/v1alpha1) is not known to this server: install the chart, or kubectl apply -f "
       "manifests/crd.yaml"},
      {409, R"({"reason":"AlreadyExists","message":"there is one"})", ErrorCode::kAlreadyExists, "there is one"},
      {409, R"({"reason":"Conflict","message":"it changed"})", ErrorCode::kConflict, "it changed"},
      {410, R"({"reason":"Expired","message":"too old"})", ErrorCode::kGone, "too old"},
      {429, R"({"message":"slow down"})", ErrorCode::kTooManyRequests, "slow down"},
      {500, R"({"message":"etcd is ill"})", ErrorCode::kUnavailable, "etcd is ill"},
      {502, "<html>bad gateway</html>\nmore", ErrorCode::kUnavailable, "HTTP 502: <html>bad gateway</html>"},
      {503, "", ErrorCode::kUnavailable, "HTTP 503"},
      {504, R"({"message":"Timeout: Too large resource version: 9, current: 5",
                "details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}})",
       ErrorCode::kGone, "Timeout: Too large resource version: 9, current: 5"},
      {504, R"({"message":"late"})", ErrorCode::kDeadlineExceeded, "late"},
      {418, "teapot", ErrorCode::kInternal, "HTTP 418: teapot"},
      {409, R"({"message":7,"details":[],"reason":{}})", ErrorCode::kConflict,
       R"(HTTP 409: {"message":7,"details":[],"reason":{}})"},
  };
  for (const Refusal& row : table) {
    const Error error = error_from_answer(row.status, row.body, 0, kTrainingJobs);
    EXPECT_EQ(error_code_name(error.code), error_code_name(row.code)) << row.body;
    EXPECT_EQ(error.message, row.message);
  }
}

TEST(StatusError, waits_as_header_or_details_say) {
  EXPECT_DOUBLE_EQ(error_from_answer(429, "{}", 4, kPods).retry_after_seconds, 4);
  EXPECT_DOUBLE_EQ(error_from_answer(429, R"({"details":{"retryAfterSeconds":9}})", 0, kPods).retry_after_seconds, 9);
  EXPECT_EQ(error_from_answer(503, "{}", 1, kPods).code, ErrorCode::kTooManyRequests);
  EXPECT_DOUBLE_EQ(error_from_answer(429, R"({"details":{"retryAfterSeconds":1e300}})", 0, kPods).retry_after_seconds,
                   0);
}

TEST(LineSplitter, keeps_an_unfinished_line_and_drops_one_that_is_too_long) {
  LineSplitter lines(8);
  std::vector<std::string> seen;
  const auto on_line = [&](std::string_view line) {
    seen.emplace_back(line);
    return line != "stop";
  };
  EXPECT_TRUE(lines.feed("a", on_line));
  EXPECT_TRUE(lines.feed("b\n\nc", on_line));
  EXPECT_EQ(lines.rest(), "c");
  EXPECT_TRUE(lines.feed("1234567890", on_line));  // too long: skipped to its end
  EXPECT_TRUE(lines.feed("still it\nd\n12345678\n123456789\n", on_line));
  EXPECT_EQ(lines.dropped(), 2);
  EXPECT_FALSE(lines.feed("stop\nnever\n", on_line));
  EXPECT_EQ(seen, (std::vector<std::string>{"ab", "", "d", "12345678", "stop"}));
}

}  // namespace
}  // namespace lockstep::kube
