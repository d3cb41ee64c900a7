//! Parts of the OpenAPI document that belong to no single handler.

use utoipa::openapi::schema::{ArrayItems, Schema, SchemaType, Type};
use utoipa::openapi::{OpenApi, RefOr};

/// Gives every response a description, which OpenAPI requires; that of a plain success is in its type.
pub(crate) fn describe_answers(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        let responses = operations.into_iter().flatten().flat_map(|operation| &mut operation.responses.responses);
        for (status, response) in responses {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                response.description = if status == "201" { "made" } else { "done" }.to_owned();
            }
        }
    }
}

/// Removes `null` from parameters and form fields, which are text: an optional one can be absent but not null.
pub(crate) fn drop_nulls_of_texts(document: &mut OpenApi) {
    let mut forms = Vec::new();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter
                    && let Some(RefOr::T(schema)) = &mut parameter.schema
                {
                    drop_null(schema);
                }
            }
            let Some(RefOr::T(body)) = &operation.request_body else { continue };
            let Some(RefOr::T(form)) = body.content.get("multipart/form-data") else { continue };
            if let Some(RefOr::Ref(reference)) = &form.schema {
                forms.extend(reference.ref_location.rsplit('/').next().map(str::to_owned));
            }
        }
    }
    let Some(components) = &mut document.components else { return };
    for form in forms {
        if let Some(RefOr::T(Schema::Object(form))) = components.schemas.get_mut(&form) {
            form.properties.values_mut().for_each(|field| match field {
                RefOr::T(schema) => drop_null(schema),
                RefOr::Ref(_) => {}
            });
        }
    }
}

fn drop_null(schema: &mut Schema) {
    match schema {
        Schema::Object(object) => drop_null_type(&mut object.schema_type),
        Schema::Array(array) => {
            drop_null_type(&mut array.schema_type);
            if let ArrayItems::RefOrSchema(items) = &mut array.items
                && let RefOr::T(items) = &mut **items
            {
                drop_null(items);
            }
        }
        Schema::OneOf(choices) => {
            let is_null = |choice: &RefOr<Schema>| matches!(choice, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null));
            choices.items.retain(|choice| !is_null(choice));
        }
        _ => {}
    }
}

fn drop_null_type(types: &mut SchemaType) {
    if let SchemaType::Array(all) = types {
        all.retain(|one| *one != Type::Null);
        if let [one] = &all[..] {
            *types = SchemaType::Type(one.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_parameter_and_no_field_of_a_form_may_be_null() {
        let document = serde_json::to_value(crate::document()).unwrap();
        let mut texts = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    texts.push((format!("{method} {path} {}", parameter["name"]), &parameter["schema"]));
                }
                let form = &operation["requestBody"]["content"]["multipart/form-data"]["schema"]["$ref"];
                let form = form.as_str().map(|form| &document.pointer(&form[1..]).unwrap()["properties"]);
                for (name, field) in form.and_then(|form| form.as_object()).into_iter().flatten() {
                    texts.push((format!("{method} {path} {name}"), field));
                }
            }
        }
        assert!(texts.len() > 30, "{texts:?}");
        for (name, schema) in texts {
            assert!(!schema.to_string().contains("\"null\""), "{name} may be null: {schema}");
        }
    }
}
