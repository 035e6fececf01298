// Images that people drop, choose or take from the samples, as the engine reads them.

const LARGEST = 1024; // pixels of a side: larger images are scaled down before anything else

/** {imageData, source} of an image file or blob. */
export async function fromFile(file) {
  const bitmap = await createImageBitmap(file);
  return fromDrawable(bitmap, bitmap.width, bitmap.height);
}

/** {imageData, source} of a data URI. */
export async function fromSample(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  return fromDrawable(image, image.naturalWidth, image.naturalHeight);
}

function fromDrawable(drawable, width, height) {
  const scale = Math.min(1, LARGEST / Math.max(width, height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  const context = canvas.getContext("2d", {willReadFrequently: true});
  context.drawImage(drawable, 0, 0, canvas.width, canvas.height);
  const imageData = context.getImageData(0, 0, canvas.width, canvas.height);
  return {imageData, source: squared(canvas), key: `${canvas.width}x${canvas.height}-${sum(imageData.data)}`};
}

/** The middle square, which is what the model sees, as a data URI. */
function squared(canvas) {
  const side = Math.min(canvas.width, canvas.height);
  const square = document.createElement("canvas");
  square.width = square.height = side;
  square.getContext("2d").drawImage(canvas, (canvas.width - side) / 2, (canvas.height - side) / 2, side, side, 0, 0, side, side);
  return square.toDataURL("image/png");
}

function sum(bytes) {
  let total = 0;
  for (let index = 0; index < bytes.length; index++) total = (31 * total + bytes[index]) | 0;
  return total;
}
