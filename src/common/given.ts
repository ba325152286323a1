// What is given, of what may be: an object without its fields that are undefined. For those who may not get such
// fields: a stored payload, and libraries that take `undefined` for a value.
export function given<T>(of: { readonly [key: string]: T | undefined }): { [key: string]: T } {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as { [key: string]: T };
}
