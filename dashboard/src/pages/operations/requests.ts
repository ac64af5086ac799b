// The requests about one operation.
import { api, type Schemas, unwrap } from "../../api/client";

export async function readOperation(id: string): Promise<Schemas["OperationDetail"]> {
  return (await unwrap(api.GET("/api/operations/{operation_id}", { params: { path: { operation_id: id } } }))).data;
}

export async function cancelOperation(id: string): Promise<Schemas["OperationDetail"]> {
  const path = { operation_id: id };
  return (await unwrap(api.POST("/api/operations/{operation_id}/cancel", { params: { path } }))).data;
}
