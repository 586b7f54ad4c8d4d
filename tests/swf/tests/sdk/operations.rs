//! Domains, types and tags: registration, deprecation, deletion, and errors.

use aws_sdk_swf::types::{RegistrationStatus, ResourceTag};
use swf_sdk::{ORDER, World, activity, fault, workflow};

#[tokio::test(start_paused = true)]
async fn a_domain_is_registered_deprecated_and_brought_back() {
    let world = World::open().await;
    let register = world.swf.register_domain().name("d").workflow_execution_retention_period_in_days("7");
    let tag = |key: &str| ResourceTag::builder().key(key).value("v").build().unwrap();
    let register = register.description("").tags(tag("a"));
    register.clone().send().await.unwrap();
    assert_eq!(fault(register.send().await), "DomainAlreadyExistsFault: d");
    let described = world.swf.describe_domain().name("d").send().await.unwrap();
    assert_eq!(described.configuration.unwrap().workflow_execution_retention_period_in_days, "7");
    let info = described.domain_info.unwrap();
    assert_eq!(info.arn.as_deref(), Some("arn:aws:swf:eu-west-2:123456789012:/domain/d"));
    assert_eq!((info.status, info.description.as_deref()), (RegistrationStatus::Registered, Some("")));
    let arn = info.arn.unwrap();
    world.swf.tag_resource().resource_arn(&arn).tags(tag("b")).send().await.unwrap();
    world.swf.untag_resource().resource_arn(&arn).tag_keys("a").send().await.unwrap();
    let tags = world.swf.list_tags_for_resource().resource_arn(&arn).send().await.unwrap().tags.unwrap();
    assert_eq!(tags, [tag("b")]);
    let many = (0..51).map(|n| tag(&n.to_string())).collect();
    let many = world.swf.tag_resource().resource_arn(&arn).set_tags(Some(many));
    assert!(fault(many.send().await).starts_with("TooManyTagsFault: "));
    world.swf.deprecate_domain().name("d").send().await.unwrap();
    assert_eq!(fault(world.swf.deprecate_domain().name("d").send().await), "DomainDeprecatedFault: d");
    let in_vain = world.swf.register_workflow_type().domain("d").name("t").version("1");
    assert_eq!(fault(in_vain.send().await), "DomainDeprecatedFault: d");
    let list = |status| world.swf.list_domains().registration_status(status).send();
    let names = |infos: Vec<aws_sdk_swf::types::DomainInfo>| {
        infos.into_iter().map(|info| info.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(list(RegistrationStatus::Deprecated).await.unwrap().domain_infos), "d");
    world.swf.undeprecate_domain().name("d").send().await.unwrap();
    assert_eq!(fault(world.swf.undeprecate_domain().name("d").send().await), "DomainAlreadyExistsFault: d");
    assert_eq!(names(list(RegistrationStatus::Registered).await.unwrap().domain_infos), "d default");
    let unknown = world.swf.describe_domain().name("no");
    assert_eq!(fault(unknown.send().await), "UnknownResourceFault: Unknown domain: no");
}

#[tokio::test(start_paused = true)]
async fn a_workflow_type_is_registered_deprecated_brought_back_and_deleted() {
    let world = World::ready().await;
    let words = "WorkflowType=[name=order, version=1]";
    let kind = || workflow(ORDER);
    let register = world.swf.register_workflow_type().domain("default").name(ORDER).version("1");
    assert_eq!(fault(register.send().await), format!("TypeAlreadyExistsFault: {words}"));
    let describe = || world.swf.describe_workflow_type().domain("default").workflow_type(kind());
    let described = describe().send().await.unwrap();
    let configuration = described.configuration.unwrap();
    assert_eq!(configuration.default_execution_start_to_close_timeout.as_deref(), Some("3600"));
    assert_eq!(configuration.default_task_list.unwrap().name, "deciders");
    let delete = || world.swf.delete_workflow_type().domain("default").workflow_type(kind()).send();
    let in_use = "TypeNotDeprecatedFault: The type is currently registered and cannot be deleted in its current state";
    assert_eq!(fault(delete().await), in_use);
    let deprecate = || world.swf.deprecate_workflow_type().domain("default").workflow_type(kind()).send();
    deprecate().await.unwrap();
    assert_eq!(fault(deprecate().await), format!("TypeDeprecatedFault: {words}"));
    let start = world.swf.start_workflow_execution().domain("default").workflow_id("w").workflow_type(kind());
    assert_eq!(fault(start.send().await), format!("TypeDeprecatedFault: {words}"));
    let undeprecate = || world.swf.undeprecate_workflow_type().domain("default").workflow_type(kind()).send();
    undeprecate().await.unwrap();
    assert_eq!(fault(undeprecate().await), format!("TypeAlreadyExistsFault: {words}"));
    deprecate().await.unwrap();
    let list = world.swf.list_workflow_types().domain("default").registration_status(RegistrationStatus::Deprecated);
    let infos = list.send().await.unwrap().type_infos;
    assert_eq!(infos[0].workflow_type.as_ref().unwrap(), &kind());
    assert!(infos[0].deprecation_date.is_some());
    delete().await.unwrap();
    assert_eq!(fault(describe().send().await), format!("UnknownResourceFault: Unknown type: {words}"));
}

#[tokio::test(start_paused = true)]
async fn an_activity_type_is_registered_deprecated_brought_back_and_deleted() {
    let world = World::ready().await;
    let words = "ActivityType=[name=charge, version=1]";
    let kind = || activity("charge");
    let register = world.swf.register_activity_type().domain("default").name("charge").version("1");
    assert_eq!(fault(register.send().await), format!("TypeAlreadyExistsFault: {words}"));
    let described = world.swf.describe_activity_type().domain("default").activity_type(kind()).send().await.unwrap();
    let configuration = described.configuration.unwrap();
    assert_eq!(configuration.default_task_heartbeat_timeout.as_deref(), Some("NONE"));
    let delete = || world.swf.delete_activity_type().domain("default").activity_type(kind()).send();
    assert!(fault(delete().await).starts_with("TypeNotDeprecatedFault: "));
    let deprecate = || world.swf.deprecate_activity_type().domain("default").activity_type(kind()).send();
    deprecate().await.unwrap();
    assert_eq!(fault(deprecate().await), format!("TypeDeprecatedFault: {words}"));
    let undeprecate = || world.swf.undeprecate_activity_type().domain("default").activity_type(kind()).send();
    undeprecate().await.unwrap();
    assert_eq!(fault(undeprecate().await), format!("TypeAlreadyExistsFault: {words}"));
    let list = |reverse| {
        let list = world.swf.list_activity_types().domain("default").reverse_order(reverse);
        list.registration_status(RegistrationStatus::Registered).maximum_page_size(1).send()
    };
    let first = list(false).await.unwrap();
    assert_eq!(first.type_infos[0].activity_type.as_ref().unwrap().name, "bare");
    assert!(first.next_page_token.is_some());
    assert_eq!(list(true).await.unwrap().type_infos[0].activity_type.as_ref().unwrap().name, "charge");
    deprecate().await.unwrap();
    delete().await.unwrap();
    assert_eq!(fault(delete().await), format!("UnknownResourceFault: Unknown type: {words}"));
}
